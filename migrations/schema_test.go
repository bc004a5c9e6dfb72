package migrations_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

var update = flag.Bool("update", false, "write the schema dumps in testdata anew")

// ask runs a query of one text column.
func ask(t *testing.T, db *migrations.DB, query string) []string {
	t.Helper()
	var out []string
	require.NoError(t, db.Read.WithContext(t.Context()).Raw(query).Scan(&out).Error)
	require.NotEmpty(t, out)
	return out
}

// dumps are the schemas as text, by dialect: of SQLite its own record of the
// statements, of Postgres each column, constraint and index.
var dumps = map[migrations.Dialect][]string{
	migrations.SQLite: {`SELECT sql || ';' FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'goose_%' AND name NOT LIKE 'sqlite_%'
		ORDER BY tbl_name, type DESC, name`},
	migrations.Postgres: {
		`SELECT table_name || '.' || column_name || ' ' || data_type || CASE is_nullable WHEN 'NO' THEN ' NOT NULL' ELSE '' END
			|| COALESCE(' COLLATE ' || collation_name, '') || COALESCE(' DEFAULT ' || column_default, '')
			|| CASE is_identity WHEN 'YES' THEN ' IDENTITY ' || identity_generation ELSE '' END
		FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE 'goose_%'
		ORDER BY table_name COLLATE "C", ordinal_position`,
		`SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
		WHERE connamespace = 'public'::regnamespace AND contype <> 'n' AND conrelid::regclass::text NOT LIKE 'goose_%' ORDER BY conrelid::regclass::text COLLATE "C", conname COLLATE "C"`,
		`SELECT indexdef || ';' FROM pg_indexes WHERE schemaname = 'public' AND tablename NOT LIKE 'goose_%' ORDER BY tablename COLLATE "C", indexname COLLATE "C"`,
	},
}

// The schema that the migrations make is the one that was reviewed: whoever
// changes it sees the whole change in one place. -update writes it anew.
func TestSchemaIsTheGoldenOne(t *testing.T) {
	for _, database := range []migrations.Database{migrations.PDS, migrations.Appview} {
		for dialect, queries := range dumps {
			t.Run(string(database)+"/"+string(dialect), func(t *testing.T) {
				db := dbtest.Open(t, database, dialect)
				var parts []string
				for _, query := range queries {
					parts = append(parts, strings.Join(ask(t, db, query), "\n"))
				}
				got := strings.Join(parts, "\n\n") + "\n"
				path := filepath.Join("testdata", string(database)+"_"+string(dialect)+".sql")
				if *update {
					require.NoError(t, os.MkdirAll("testdata", 0o755))
					require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
				}
				want, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, string(want), got, "when it is meant: go test ./migrations -update")
			})
		}
	}
}

// shapes are what both dialects of a database must have alike, as queries that
// give the same text: columns; keys, whatever their names; indexes with their
// names, key columns, uniqueness, and whether they hold a part of the table.
var shapes = map[string]map[migrations.Dialect]string{
	"columns": {
		migrations.SQLite: `SELECT m.name || '.' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c
			WHERE m.type = 'table' AND ` + ours("m.name") + ` ORDER BY 1`,
		migrations.Postgres: `SELECT table_name || '.' || column_name FROM information_schema.columns
			WHERE table_schema = 'public' AND ` + ours("table_name") + ` ORDER BY (table_name || '.' || column_name) COLLATE "C"`,
	},
	"keys": {
		migrations.SQLite: `SELECT line FROM (
			SELECT 'primary ' || name || ' (' || GROUP_CONCAT(column_name, ', ') || ')' AS line FROM (
				SELECT m.name, c.name AS column_name FROM sqlite_schema m, pragma_table_info(m.name) c
				WHERE m.type = 'table' AND c.pk > 0 AND ` + ours("m.name") + ` ORDER BY m.name, c.pk) GROUP BY name
			UNION ALL
			SELECT 'unique ' || name || ' (' || GROUP_CONCAT(column_name, ', ') || ')' FROM (
				SELECT m.name, i.name AS key_name, c.name AS column_name FROM sqlite_schema m, pragma_index_list(m.name) i, pragma_index_info(i.name) c
				WHERE m.type = 'table' AND i.origin = 'u' AND ` + ours("m.name") + ` ORDER BY m.name, i.name, c.seqno) GROUP BY name, key_name
			) ORDER BY 1`,
		migrations.Postgres: `SELECT line FROM (
			SELECT CASE k.contype WHEN 'p' THEN 'primary ' ELSE 'unique ' END || c.relname || ' (' ||
				(SELECT STRING_AGG(a.attname, ', ' ORDER BY n.ord) FROM UNNEST(k.conkey) WITH ORDINALITY n(attnum, ord)
				JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = n.attnum) || ')' AS line
			FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
			WHERE k.connamespace = 'public'::regnamespace AND k.contype IN ('p', 'u') AND ` + ours("c.relname") + `) keys ORDER BY line COLLATE "C"`,
	},
	"indexes": {
		migrations.SQLite: `SELECT CASE is_unique WHEN 1 THEN 'unique ' ELSE '' END || CASE is_part WHEN 1 THEN 'partial ' ELSE '' END
				|| key_name || ' ON ' || name || ' (' || GROUP_CONCAT(column_name, ', ') || ')' FROM (
			SELECT m.name, i.name AS key_name, i."unique" AS is_unique, i.partial AS is_part, COALESCE(c.name, 'expression') AS column_name
			FROM sqlite_schema m, pragma_index_list(m.name) i, pragma_index_info(i.name) c
			WHERE m.type = 'table' AND i.origin = 'c' AND ` + ours("m.name") + ` ORDER BY m.name, i.name, c.seqno)
			GROUP BY name, key_name, is_unique, is_part ORDER BY name, key_name`,
		migrations.Postgres: `SELECT CASE WHEN i.indisunique THEN 'unique ' ELSE '' END || CASE WHEN i.indpred IS NOT NULL THEN 'partial ' ELSE '' END
				|| x.relname || ' ON ' || c.relname || ' (' ||
				(SELECT STRING_AGG(COALESCE(a.attname, 'expression'), ', ' ORDER BY n.ord) FROM UNNEST(i.indkey::int[]) WITH ORDINALITY n(attnum, ord)
				LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = n.attnum AND n.attnum > 0) || ')'
			FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_class c ON c.oid = i.indrelid
			WHERE c.relnamespace = 'public'::regnamespace AND ` + ours("c.relname") + `
				AND ` + ours("x.relname") + ` AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u'))
			ORDER BY c.relname COLLATE "C", x.relname COLLATE "C"`,
	},
}

// ours leaves out the tables of the database itself, of goose, and the tables and
// indexes of full-text search, which have no equal in the other dialect.
func ours(table string) string {
	return fmt.Sprintf(`%[1]s NOT LIKE 'sqlite_%%' AND %[1]s NOT LIKE 'goose_%%' AND %[1]s NOT LIKE '%%fts%%'`, table)
}

// The two dialects of a database must not drift apart.
func TestDialectsHaveTheSameShape(t *testing.T) {
	for _, database := range []migrations.Database{migrations.PDS, migrations.Appview} {
		lite, post := dbtest.Open(t, database, migrations.SQLite), dbtest.Open(t, database, migrations.Postgres)
		for shape, queries := range shapes {
			t.Run(string(database)+"/"+shape, func(t *testing.T) {
				require.Equal(t, strings.Join(ask(t, lite, queries[migrations.SQLite]), "\n"), strings.Join(ask(t, post, queries[migrations.Postgres]), "\n"))
			})
		}
	}
}
