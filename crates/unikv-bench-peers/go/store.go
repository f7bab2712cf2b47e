package main

// config is what a store is opened with. Sizes are in bytes.
type config struct {
	dir       string
	create    bool
	sync      bool
	memtable  int64
	memtables int
	cache     int64
}

// op puts a value under a key, or deletes the key.
type op struct {
	key, value []byte
	isPut      bool
}

// store is an open store. It keeps no slice that it was given once it has returned, and nobody keeps those
// that it gives.
type store interface {
	// write does all of ops, or nothing.
	write(ops []op) error
	// get gives the value to found, if there is one.
	get(key []byte, found func(value []byte)) error
	// scan gives entries from the key from on, or from the end if that is nil, until visit has enough.
	scan(from []byte, backwards bool, visit func(key, value []byte) bool) error
	flush() error
	// tidy does what the store does on request only.
	tidy() error
	close() error
}
