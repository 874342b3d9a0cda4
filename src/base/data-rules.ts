// What a caller allows providers to do with its data, as requests, keys and settings say it.

import { isObject } from "./json.ts";

export interface DataRules {
  /** Nothing is stored after the reply. */
  readonly zdr?: true;
  /** Nothing is used to train models. */
  readonly data_collection?: "deny";
  /** Where the data is processed: "us", "eu". */
  readonly region?: string;
}

/** What the operator states of its own provider accounts. */
export interface OwnDataPolicy {
  /** Providers with which the operator agreed that they store nothing. */
  readonly zdrProviders: ReadonlySet<string>;
  /** What all calls must satisfy. */
  readonly rules?: DataRules | undefined;
}

export const REGION = /^[a-z]{2,12}$/;

/** Undefined if nothing is restricted. */
export function dataRulesOf(value: unknown): DataRules | undefined {
  if (!isObject(value)) return undefined;
  const { zdr, data_collection: collection, region } = value;
  const rules: DataRules = {
    ...(zdr === true && { zdr }),
    ...(collection === "deny" && { data_collection: collection }),
    ...(typeof region === "string" && { region: region.toLowerCase() }),
  };
  return Object.keys(rules).length === 0 ? undefined : rules;
}

/** Parses the text of a setting or a form: `zdr, deny, region=eu`. Undefined if a part is none of these. */
export function parseDataRules(text: string): DataRules | undefined {
  const rules: { zdr?: true; data_collection?: "deny"; region?: string } = {};
  for (const part of text.toLowerCase().split(/[\s,]+/)) {
    const [name, region] = part.split("=");
    if (part === "zdr") rules.zdr = true;
    else if (part === "deny") rules.data_collection = "deny";
    else if (name === "region" && region !== undefined && REGION.test(region))
      rules.region = region;
    else if (part !== "") return undefined;
  }
  return rules;
}

export function dataRulesText({ zdr, data_collection: collection, region }: DataRules): string {
  const parts = [zdr && "zdr", collection, region && `region=${region}`];
  return parts.filter((part) => part !== undefined && part !== "").join(", ");
}
