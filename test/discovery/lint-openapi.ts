// Lints an OpenAPI description with Redocly's rules, which include examples that do not match their schema.

import { createConfig, lintFromString } from "@redocly/openapi-core";

export async function lintOpenApi(yaml: string): Promise<readonly string[]> {
  const config = await createConfig({
    extends: ["recommended-strict"],
    rules: {
      // The license of the program says nothing about a service.
      "info-license": "off",
      "info-license-strict": "off",
      "tag-description": "error",
      "operation-singular-tag": "error",
      "component-name-unique": "error",
      // Health checks have no 4xx responses.
      "operation-4xx-response": "off",
    },
  });
  const problems = await lintFromString({ source: yaml, config, absoluteRef: "openapi.yaml" });
  return problems.map(({ ruleId, message, location }) => {
    return `${ruleId}: ${message} at ${location[0]?.pointer ?? ""}`;
  });
}
