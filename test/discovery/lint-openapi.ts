// What Redocly's rules have against a description; an example that does not fit its schema is among them.

import { createConfig, lintFromString } from "@redocly/openapi-core";

export async function lintOpenApi(yaml: string): Promise<readonly string[]> {
  const config = await createConfig({
    extends: ["recommended-strict"],
    rules: {
      // The licence of a program says nothing about a service.
      "info-license": "off",
      "info-license-strict": "off",
      "tag-description": "error",
      "operation-singular-tag": "error",
      "component-name-unique": "error",
      // A health check has nothing to refuse.
      "operation-4xx-response": "off",
    },
  });
  const problems = await lintFromString({ source: yaml, config, absoluteRef: "openapi.yaml" });
  return problems.map(({ ruleId, message, location }) => {
    return `${ruleId}: ${message} at ${location[0]?.pointer ?? ""}`;
  });
}
