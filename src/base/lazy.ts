// Works a thing out when it is first asked for, and never again.

/** Where `make` throws, the next who asks has it tried again. */
export function lazy<T>(make: () => T): () => T {
  let cached: { readonly value: T } | undefined;
  return () => {
    cached ??= { value: make() };
    return cached.value;
  };
}
