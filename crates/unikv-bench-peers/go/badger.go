package main

import (
	"errors"
	"os"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// badgerStore is BadgerDB with values in its log.
type badgerStore struct{ db *badger.DB }

// Values from so many bytes on go to the log; by default only those of a megabyte do.
const valueThreshold = 128

// A log file of which at least this part is garbage is written anew.
const discardRatio = 0.5

func openBadger(c config) (store, error) {
	if !c.create {
		if _, err := os.Stat(c.dir); err != nil {
			return nil, err
		}
	}
	all := badger.DefaultOptions(c.dir).
		WithSyncWrites(c.sync).
		WithMemTableSize(c.memtable).
		WithNumMemtables(c.memtables).
		WithBlockCacheSize(c.cache / 2).
		WithIndexCacheSize(c.cache / 2).
		WithValueThreshold(valueThreshold).
		WithCompression(options.None).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithLogger(nil)
	db, err := badger.Open(all)
	if err != nil {
		return nil, err
	}
	return &badgerStore{db}, nil
}

func (s *badgerStore) write(ops []op) error {
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	for _, op := range ops {
		var err error
		if op.isPut {
			err = txn.Set(op.key, op.value)
		} else {
			err = txn.Delete(op.key)
		}
		if err != nil {
			return err
		}
	}
	return txn.Commit()
}

func (s *badgerStore) get(key []byte, found func(value []byte)) error {
	return s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return item.Value(func(value []byte) error {
			found(value)
			return nil
		})
	})
}

func (s *badgerStore) scan(from []byte, backwards bool, visit func(key, value []byte) bool) error {
	return s.db.View(func(txn *badger.Txn) error {
		how := badger.DefaultIteratorOptions
		how.Reverse = backwards
		at := txn.NewIterator(how)
		defer at.Close()
		if from == nil {
			at.Rewind()
		} else {
			at.Seek(from)
		}
		for more := true; more && at.Valid(); at.Next() {
			item := at.Item()
			err := item.Value(func(value []byte) error {
				more = visit(item.Key(), value)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *badgerStore) flush() error { return s.db.Sync() }

func (s *badgerStore) tidy() error {
	for {
		err := s.db.RunValueLogGC(discardRatio)
		if errors.Is(err, badger.ErrNoRewrite) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *badgerStore) close() error { return s.db.Close() }
