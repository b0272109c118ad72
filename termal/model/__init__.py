"""What exists: frozen records and enums. Imports the standard library and msgspec only; decides and opens nothing."""
