package main

import "fmt"

// The exit codes of the program. Most commands know the first two. A command that
// checks something (blob fsck, repo fsck, doctor) tells with the others what it
// found, so that a job that runs it can tell "broken" from "could not look".
const (
	exitFailed   = 1 // could not be run, or not to its end
	exitLost     = 3 // something is corrupt or missing, and was not repaired (doctor: something fails)
	exitUntidy   = 4 // nothing is lost, but there is something to clear up (doctor: something to be warned of)
	exitCodeHelp = "Exit codes: 0 all is well, or was repaired; 1 the check could not be made or not to its end;\n" +
		"3 something is corrupt or missing; 4 nothing is lost, but something is left over."
)

// verdict is what a check came to, when that is not "all is well".
type verdict struct {
	code int
	text string
}

func (v *verdict) Error() string { return v.text }

// fault is a kind of fault that a check counts.
type fault interface {
	comparable
	Lost() bool // as opposed to something to clear up
}

// graver splits what is still there: what is lost, what could not be read
// (unreadable, of which nothing is known), and what is to be cleared up.
func graver[K fault](open map[K]int64, unreadable K) (lost, unread, untidy int64) {
	for kind, n := range open {
		switch {
		case kind.Lost():
			lost += n
		case kind == unreadable:
			unread += n
		default:
			untidy += n
		}
	}
	return lost, unread, untidy
}

// checked is the verdict of a check by the gravest of its faults; each text
// takes the number of them.
func checked(lost, unread, untidy int64, lostText, unreadText, untidyText string) error {
	switch {
	case lost > 0:
		return &verdict{exitLost, fmt.Sprintf(lostText, lost)}
	case unread > 0:
		return fmt.Errorf(unreadText, unread)
	case untidy > 0:
		return &verdict{exitUntidy, fmt.Sprintf(untidyText, untidy)}
	}
	return nil
}
