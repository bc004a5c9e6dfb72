package sequencer

// ReadFrame is what a check reads a stored frame with.
var ReadFrame = readFrame
