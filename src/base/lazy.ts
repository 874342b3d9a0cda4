/** Computes a value on first use. If `make` throws, nothing is cached and the next call tries again. */
export function lazy<T>(make: () => T): () => T {
  let cached: { readonly value: T } | undefined;
  return () => {
    cached ??= { value: make() };
    return cached.value;
  };
}
