// Works a thing out once for each of the names that were asked for lately.

const KEPT_MAX = 1_000;

/** What is undefined is worked out again, so that names which mean nothing crowd nothing out. */
export function remembered<Name, T>(
  make: (name: Name) => T,
  keptMax = KEPT_MAX,
): (name: Name) => T {
  const known = new Map<Name, T>();
  return (name) => {
    const before = known.get(name);
    if (before !== undefined) return before;
    const made = make(name);
    if (made === undefined) return made;
    if (known.size >= keptMax) known.clear();
    known.set(name, made);
    return made;
  };
}
