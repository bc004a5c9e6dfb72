package main

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
