package xrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"herbarium.garden/lexicons"
)

// refuse answers an error that kept a request from being answered as asked.
// It returns the error again when it is our fault and belongs in the log.
func (s *Server) refuse(call *Call, err error) error {
	answer, known := s.answer(err)
	call.refused = answer.Name
	header := call.Writer.Header()
	for name, value := range answer.Header {
		header.Set(name, value)
	}
	body := struct {
		Error    string             `json:"error"`
		Message  string             `json:"message"`
		Findings []lexicons.Finding `json:"findings,omitempty"`
	}{answer.Name, answer.Message, answer.Findings}
	if answer.Status == http.StatusRequestEntityTooLarge {
		header.Set("Connection", "close") // the rest of the body is still coming
	}
	if sendErr := sendJSON(call, answer.Status, body); sendErr != nil {
		return errors.Join(err, sendErr)
	}
	if known && answer.Status < http.StatusInternalServerError || answer.Status == http.StatusNotImplemented {
		return nil
	}
	return err
}

// answer finds what a client is told about err. Everything that is no answer
// by itself and that no translator knows is an internal error, told without
// its text.
func (s *Server) answer(err error) (answer *Error, known bool) {
	if errors.As(err, &answer) {
		return answer, true
	}
	for _, translate := range s.translators {
		if answer = translate(err); answer != nil {
			return answer, true
		}
	}
	if refused := (*lexicons.Refused)(nil); errors.As(err, &refused) {
		return &Error{Status: http.StatusBadRequest, Name: refused.Name(), Message: refused.Error(), Findings: refused.Findings}, true
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return payloadTooLarge(tooLarge.Limit), true
	}
	if routing := (*echo.HTTPError)(nil); errors.As(err, &routing) {
		switch routing.Code {
		case http.StatusMethodNotAllowed:
			return Errorf(http.StatusMethodNotAllowed, "InvalidRequest", "this path does not answer that HTTP method"), true
		case http.StatusNotFound:
			return Errorf(http.StatusNotFound, "NotFound", "nothing is served under this path"), true
		}
	}
	return Errorf(http.StatusInternalServerError, "InternalServerError", "internal error; the request id leads to it in the log"), false
}

// sendJSON writes v as the whole answer. HTML characters stay as they are:
// record text goes out the way it came in.
func sendJSON(call *Call, status int, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	body := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	header := call.Writer.Header()
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	call.Writer.WriteHeader(status)
	_, err := call.Writer.Write(body)
	return err
}
