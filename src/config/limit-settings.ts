// Settings that limit how much one key or network uses the gateway at a time.

import { integer } from "./setting-schemas.ts";

export const LIMIT_SETTINGS: Readonly<
  Record<string, { readonly defaultValue: string; readonly description: string }>
> = {
  POSTERN_REQUESTS_PER_MINUTE: {
    defaultValue: "600; 0 in development",
    description: "Requests per key and minute; 0 for no limit.",
  },
  POSTERN_OPEN_CALLS_PER_KEY: {
    defaultValue: "100; 0 in development",
    description: "Concurrent model calls per key; 0 for no limit.",
  },
  POSTERN_FETCHED_FILES_PER_MINUTE: {
    defaultValue: "120",
    description:
      "Images and documents that the gateway fetches from URLs in requests to Amazon Bedrock, per account, minute and process; 0 to fetch none.",
  },
  POSTERN_CONNECTIONS_PER_NETWORK: {
    defaultValue: "a quarter of the file descriptors, at most 4096; 0 in development",
    description:
      "Open connections of an IPv4 address or IPv6 /64 to a process; 0 for no limit. At most half of the file descriptors.",
  },
};

export const LIMIT_ENVIRONMENT = {
  POSTERN_REQUESTS_PER_MINUTE: integer(0, 10_000_000).optional(),
  POSTERN_OPEN_CALLS_PER_KEY: integer(0, 1_000_000).optional(),
  POSTERN_FETCHED_FILES_PER_MINUTE: integer(0, 1_000_000).default(120),
  POSTERN_CONNECTIONS_PER_NETWORK: integer(0, 1_000_000).optional(),
};
