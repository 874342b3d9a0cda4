/** A table's own member. Reading a table by a name from outside would find `toString` and other inherited members. */
export function lookUp<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
