// Comparison of ETags. The text of a compressed response has the ETag of the plain text with a suffix, as strong ETags
// promise the same bytes.

const GZIP_SUFFIX = '-gzip"';

export function gzipEtag(etag: string): string {
  return etag.replace(/"$/, GZIP_SUFFIX);
}

/** `if-none-match` uses weak comparison (RFC 9110): a cache may have weakened the tag. */
export function matchesEtag(etag: string, ifNoneMatch: string | null): boolean {
  return (ifNoneMatch ?? "")
    .split(",")
    .map((tag) => tag.trim().replace(/^W\//, "").replace(GZIP_SUFFIX, '"'))
    .some((tag) => tag === etag || tag === "*");
}
