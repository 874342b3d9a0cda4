// Random URLs. `fc.webUrl` takes half a second of CPU time in each process.

import * as fc from "fast-check";

export const webUrl = fc
  .tuple(fc.domain(), fc.string({ unit: "grapheme" }))
  .map(([domain, segment]) => `https://${domain}/${encodeURIComponent(segment)}`);
