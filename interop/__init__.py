"""Tables written by the reference implementations on the JVM, read here: run by `make test-interop`."""
