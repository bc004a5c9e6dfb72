package migrations

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// SQLite parses a statement's text each time that it runs unless somebody
// keeps the prepared form. pgx keeps it by itself; gorm's own cache does not
// serve inside a transaction, where each use prepares anew. So each connection
// to SQLite remembers what it has prepared.

// statementsPerConn bounds the statements that one connection remembers.
const statementsPerConn = 256

// openCaching is sql.Open with connections that remember their statements.
func openCaching(driverName, dsn string) (*sql.DB, error) {
	plain, err := sql.Open(driverName, dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = plain.Close() }() // it never connected
	return sql.OpenDB(cachingConnector{plain.Driver(), dsn}), nil
}

type cachingConnector struct {
	driver driver.Driver
	dsn    string
}

func (c cachingConnector) Driver() driver.Driver { return c.driver }

func (c cachingConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	full, ok := conn.(fullConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("connection %T lacks a method", conn), conn.Close())
	}
	return &cachingConn{fullConn: full, idle: map[string]driver.Stmt{}}, nil
}

// fullConn is what the SQLite driver's connection can do and database/sql asks for.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// fullRows is the same for rows.
type fullRows interface {
	driver.Rows
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeLength
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// cachingConn is used by one goroutine at a time, as every driver.Conn.
type cachingConn struct {
	fullConn
	// idle holds the prepared statements that do not run just now, by text: a
	// statement whose rows are still open is not run a second time.
	idle map[string]driver.Stmt
}

func (c *cachingConn) take(ctx context.Context, query string) (driver.Stmt, error) {
	if s, ok := c.idle[query]; ok {
		delete(c.idle, query)
		return s, nil
	}
	return c.PrepareContext(ctx, query)
}

func (c *cachingConn) giveBack(query string, s driver.Stmt) error {
	if _, taken := c.idle[query]; taken {
		return s.Close()
	}
	c.idle[query] = s
	if len(c.idle) <= statementsPerConn {
		return nil
	}
	for any, s := range c.idle {
		delete(c.idle, any)
		return s.Close()
	}
	return nil
}

func (c *cachingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	runner, ok := s.(driver.StmtExecContext)
	if !ok {
		return nil, errors.Join(fmt.Errorf("statement %T cannot run with a context", s), s.Close())
	}
	result, err := runner.ExecContext(ctx, args)
	return result, errors.Join(err, c.giveBack(query, s))
}

func (c *cachingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	runner, ok := s.(driver.StmtQueryContext)
	if !ok {
		return nil, errors.Join(fmt.Errorf("statement %T cannot run with a context", s), s.Close())
	}
	rows, err := runner.QueryContext(ctx, args)
	if err != nil {
		return nil, errors.Join(err, c.giveBack(query, s))
	}
	full, ok := rows.(fullRows)
	if !ok {
		return nil, errors.Join(fmt.Errorf("rows %T lack a method", rows), rows.Close(), s.Close())
	}
	return &cachingRows{fullRows: full, done: func() error { return c.giveBack(query, s) }}, nil
}

func (c *cachingConn) Close() error {
	var errs []error
	for _, s := range c.idle {
		errs = append(errs, s.Close())
	}
	clear(c.idle)
	return errors.Join(append(errs, c.fullConn.Close())...)
}

// cachingRows gives the statement back when they are closed.
type cachingRows struct {
	fullRows
	done func() error
}

func (r *cachingRows) Close() error { return errors.Join(r.fullRows.Close(), r.done()) }
