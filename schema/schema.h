/* The SQLite schema as numbered migrations. Nothing else defines a table.
 *
 * Migration n (from 1) takes a database of user_version n - 1 to n. A published migration never
 * changes: a new need is a new migration. The application id marks a file as ours.
 */
#ifndef IPU_SCHEMA_SCHEMA_H
#define IPU_SCHEMA_SCHEMA_H

enum { SCHEMA_APPLICATION_ID = 0x69707564 }; /* "ipud" */

/* Number of migrations: the version that this program reads and writes. */
int schema_version(void);
/* SQL text of migration `number`, 1..schema_version(). */
const char *schema_migration(int number);
/* Settings for a new, empty database file; before the first migration. */
const char *schema_create_pragmas(void);
/* Settings of every connection. */
const char *schema_connection_pragmas(void);

#endif
