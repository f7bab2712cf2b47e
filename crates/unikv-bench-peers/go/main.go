// Package main gives stores that are written in Go a C interface, for the adapter in src/go.
//
// Every function returns nil or the text of an error, which the caller frees. What is read is copied to a
// buffer of the caller: memory of Go does not outlive the call.
package main

// #include <stdint.h>
import "C"

import (
	"encoding/binary"
	"fmt"
	"runtime/cgo"
	"unsafe"
)

func main() {}

// The lengths of key and value before each entry in a buffer; a value that is no value stands for a delete.
const headLen = 8

const noValue = ^uint32(0)

func bytesOf(at *C.char, length C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(at)), int(length))
}

func text(err error) *C.char {
	if err == nil {
		return nil
	}
	return C.CString(err.Error())
}

func opened(handle C.uintptr_t) store { return cgo.Handle(handle).Value().(store) }

//export peer_open
func peer_open(
	name *C.char, dir *C.char, create, sync C.int, memtable, memtables, cache C.int64_t, handle *C.uintptr_t,
) *C.char {
	c := config{C.GoString(dir), create != 0, sync != 0, int64(memtable), int(memtables), int64(cache)}
	var s store
	var err error
	switch name := C.GoString(name); name {
	case "pebble":
		s, err = openPebble(c)
	case "badger":
		s, err = openBadger(c)
	default:
		err = fmt.Errorf("there is no store %q", name)
	}
	if err == nil {
		*handle = C.uintptr_t(cgo.NewHandle(s))
	}
	return text(err)
}

//export peer_close
func peer_close(handle C.uintptr_t) *C.char {
	err := opened(handle).close()
	cgo.Handle(handle).Delete()
	return text(err)
}

//export peer_put
func peer_put(handle C.uintptr_t, key *C.char, keyLen C.size_t, value *C.char, valueLen C.size_t) *C.char {
	return text(opened(handle).write([]op{{bytesOf(key, keyLen), bytesOf(value, valueLen), true}}))
}

//export peer_write
func peer_write(handle C.uintptr_t, batch *C.char, batchLen C.size_t) *C.char {
	var ops []op
	for rest := bytesOf(batch, batchLen); len(rest) > 0; {
		keyLen, valueLen := binary.LittleEndian.Uint32(rest), binary.LittleEndian.Uint32(rest[4:])
		one := op{key: rest[headLen : headLen+keyLen], isPut: valueLen != noValue}
		rest = rest[headLen+keyLen:]
		if one.isPut {
			one.value, rest = rest[:valueLen], rest[valueLen:]
		}
		ops = append(ops, one)
	}
	return text(opened(handle).write(ops))
}

// The length of the value goes to found, -1 if there is none. What does not fit is left out.
//
//export peer_get
func peer_get(
	handle C.uintptr_t, key *C.char, keyLen C.size_t, buffer *C.char, bufferLen C.size_t, found *C.int64_t,
) *C.char {
	*found = -1
	return text(opened(handle).get(bytesOf(key, keyLen), func(value []byte) {
		*found = C.int64_t(len(value))
		copy(bytesOf(buffer, bufferLen), value)
	}))
}

// The number of entries that fitted goes to count, and to needed what the buffer must have for the next, if
// that was the reason to stop.
//
//export peer_scan
func peer_scan(
	handle C.uintptr_t, from *C.char, fromLen C.size_t, backwards C.int, limit C.size_t,
	buffer *C.char, bufferLen C.size_t, count *C.size_t, needed *C.size_t,
) *C.char {
	var start []byte
	if from != nil {
		start = bytesOf(from, fromLen)
	}
	all, used, entries := bytesOf(buffer, bufferLen), 0, 0
	*needed = 0
	err := opened(handle).scan(start, backwards != 0, func(key, value []byte) bool {
		length := headLen + len(key) + len(value)
		if used+length > len(all) {
			*needed = C.size_t(used + length)
			return false
		}
		binary.LittleEndian.PutUint32(all[used:], uint32(len(key)))
		binary.LittleEndian.PutUint32(all[used+4:], uint32(len(value)))
		copy(all[used+headLen:], key)
		copy(all[used+headLen+len(key):], value)
		used += length
		entries++
		return entries < int(limit)
	})
	*count = C.size_t(entries)
	return text(err)
}

//export peer_flush
func peer_flush(handle C.uintptr_t) *C.char { return text(opened(handle).flush()) }

//export peer_tidy
func peer_tidy(handle C.uintptr_t) *C.char { return text(opened(handle).tidy()) }
