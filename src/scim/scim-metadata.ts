// What a SCIM client can find out about this service provider: its features, resource types and schemas (RFC 7643 §5 to §7).

import { LIST_PAGE_MAX } from "./scim-paging.ts";
import { GROUP_SCHEMA, type Resource, USER_SCHEMA } from "./scim-resource.ts";

export function serviceProviderConfig(baseUrl: string): Resource {
  return {
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
    documentationUri: `${baseUrl}/docs/guides/single-sign-on`,
    patch: { supported: true },
    bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
    filter: { supported: true, maxResults: LIST_PAGE_MAX },
    changePassword: { supported: false },
    sort: { supported: false },
    etag: { supported: false },
    authenticationSchemes: [
      {
        type: "oauthbearertoken",
        name: "Bearer token",
        description: "A token of the page Directory sync of the workspace.",
        primary: true,
      },
    ],
    meta: {
      resourceType: "ServiceProviderConfig",
      location: `${baseUrl}/scim/v2/ServiceProviderConfig`,
    },
  };
}

export function resourceTypes(baseUrl: string): readonly Resource[] {
  return [
    ["User", "/Users", USER_SCHEMA],
    ["Group", "/Groups", GROUP_SCHEMA],
  ].map(([name, endpoint, schema]) => ({
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
    id: name,
    name,
    endpoint,
    schema,
    meta: { resourceType: "ResourceType", location: `${baseUrl}/scim/v2/ResourceTypes/${name}` },
  }));
}

export function schemas(baseUrl: string): readonly Resource[] {
  return [
    schema(baseUrl, USER_SCHEMA, "User", [
      attribute("userName", { required: true, uniqueness: "server" }),
      complex("name", false, ["formatted", "givenName", "familyName"]),
      attribute("displayName"),
      complex("emails", true, ["value", "type"]),
      attribute("active", { type: "boolean" }),
      attribute("externalId", { caseExact: true }),
      { ...complex("groups", true, ["value", "display"]), mutability: "readOnly" },
    ]),
    schema(baseUrl, GROUP_SCHEMA, "Group", [
      attribute("displayName", { required: true, uniqueness: "server" }),
      attribute("externalId", { caseExact: true }),
      complex("members", true, ["value", "display"]),
    ]),
  ];
}

function schema(
  baseUrl: string,
  id: string,
  name: string,
  attributes: readonly Resource[],
): Resource {
  return {
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:Schema"],
    id,
    name,
    attributes,
    meta: { resourceType: "Schema", location: `${baseUrl}/scim/v2/Schemas/${id}` },
  };
}

function attribute(name: string, more: Resource = {}): Resource {
  return {
    name,
    type: "string",
    multiValued: false,
    required: false,
    caseExact: false,
    mutability: "readWrite",
    returned: "default",
    uniqueness: "none",
    ...more,
  };
}

function complex(name: string, multiValued: boolean, subs: readonly string[]): Resource {
  const subAttributes = subs.map((sub) => attribute(sub));
  return attribute(name, { type: "complex", multiValued, subAttributes });
}
