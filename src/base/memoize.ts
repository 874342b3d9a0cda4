const MAX_ENTRIES = 1_000;

/** Caches results by name. `undefined` is not cached, so unknown names cannot evict real entries. */
export function memoize<Name, T>(
  make: (name: Name) => T,
  maxEntries = MAX_ENTRIES,
): (name: Name) => T {
  const cache = new Map<Name, T>();
  return (name) => {
    const cached = cache.get(name);
    if (cached !== undefined) return cached;
    const value = make(name);
    if (value === undefined) return value;
    if (cache.size >= maxEntries) cache.clear();
    cache.set(name, value);
    return value;
  };
}
