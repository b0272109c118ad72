"""SQLite machinery: connections, the writer's thread, readers, migrations, backup. The only importer of apsw."""
