package main

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// pebbleStore is Pebble with filters of 10 bits a key.
type pebbleStore struct {
	db   *pebble.DB
	mode *pebble.WriteOptions
}

// silent keeps Pebble from writing to the standard error.
type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { pebble.DefaultLogger.Fatalf(format, args...) }

func openPebble(c config) (store, error) {
	cache := pebble.NewCache(c.cache)
	defer cache.Unref()
	options := &pebble.Options{
		Cache:                       cache,
		MemTableSize:                uint64(c.memtable),
		MemTableStopWritesThreshold: c.memtables,
		FormatMajorVersion:          pebble.FormatNewest,
		ErrorIfNotExists:            !c.create,
		Logger:                      silent{},
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		options.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	}
	db, err := pebble.Open(c.dir, options)
	if err != nil {
		return nil, err
	}
	if c.sync {
		return &pebbleStore{db, pebble.Sync}, nil
	}
	return &pebbleStore{db, pebble.NoSync}, nil
}

func (s *pebbleStore) write(ops []op) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	for _, op := range ops {
		var err error
		if op.isPut {
			err = batch.Set(op.key, op.value, nil)
		} else {
			err = batch.Delete(op.key, nil)
		}
		if err != nil {
			return err
		}
	}
	return batch.Commit(s.mode)
}

func (s *pebbleStore) get(key []byte, found func(value []byte)) error {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	found(value)
	return closer.Close()
}

func (s *pebbleStore) scan(from []byte, backwards bool, visit func(key, value []byte) bool) error {
	at, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	step := at.Next
	switch {
	case backwards && from != nil:
		// The least key behind it is the same with a zero.
		at.SeekLT(append(append([]byte{}, from...), 0))
		step = at.Prev
	case backwards:
		at.Last()
		step = at.Prev
	case from != nil:
		at.SeekGE(from)
	default:
		at.First()
	}
	for at.Valid() && visit(at.Key(), at.Value()) {
		step()
	}
	return errors.Join(at.Error(), at.Close())
}

func (s *pebbleStore) flush() error { return s.db.Flush() }

func (s *pebbleStore) tidy() error { return nil }

func (s *pebbleStore) close() error { return s.db.Close() }
