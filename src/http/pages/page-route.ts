// The documentation that all page routes share.

export const PAGE_ROUTE = {
  dialect: "page",
  hidden: true,
  faults: [],
  responses: { 200: { description: "A page.", contentType: "text/html" } },
} as const;
