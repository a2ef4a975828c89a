"""The names and forms of torch-diode's own package, so that programs written for it go on working."""
