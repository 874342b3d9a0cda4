// Works a thing out when it is first asked for, and never again.

/** Where `make` throws, the next who asks has it tried again. */
export function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
