"""The names and forms of torch-diode's own package, so that programs that were written for it still work."""
