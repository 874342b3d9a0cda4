/** @jsxImportSource hono/jsx */
// The form fields for which API keys use a provider key, and whether the provider may store their calls.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { invalid } from "../../base/fault.ts";
import { Option } from "../../http/pages/components/form.tsx";
import type { Key } from "../../keys/key.ts";
import type { ProviderKeyUse } from "../../provider-keys/provider-keys.ts";
import { keyName } from "../usage/read-usage.ts";

/** A form has at most 64 fields. */
const API_KEYS_SHOWN_MAX = 40;

/** Each chosen API key is a field with its id as the name. */
export const USE_FIELDS = {
  used_by: z.enum(["all", "chosen"]).default("all"),
  /** Chosen API keys that the form has no checkbox for, separated by spaces. */
  also_used_by: z.string().default(""),
  allow_store: z.literal("on").optional(),
};
const API_KEY_FIELD = /^key_/;

type UseForm = z.infer<z.ZodObject<typeof USE_FIELDS>>;

/** The use as the form was filled in; the list of keys may be empty. */
export function useOf(form: UseForm): ProviderKeyUse {
  const checked = Object.keys(form).filter((name) => API_KEY_FIELD.test(name));
  const chosen = [...checked, ...form.also_used_by.split(" ").filter((id) => id !== "")];
  return {
    apiKeyIds: form.used_by === "all" ? null : chosen,
    allowStore: form.allow_store === "on",
  };
}

export function parseUse(form: UseForm): ProviderKeyUse {
  const use = useOf(form);
  if (use.apiKeyIds?.length === 0)
    throw invalid("used_by", "Choose at least one API key, or all keys of the workspace.");
  return use;
}

export type ChoosableKey = Pick<Key, "id" | "name" | "last4">;

export function describeUsers(
  { apiKeyIds }: Pick<ProviderKeyUse, "apiKeyIds">,
  apiKeys: readonly ChoosableKey[],
): string {
  const names = apiKeyIds?.map((id) => nameOf(id, apiKeys));
  return names === undefined ? "All keys of the workspace" : names.join(", ");
}

/** What is used by which API keys, in words. */
export function describeUse(use: ProviderKeyUse, apiKeys: readonly ChoosableKey[]): string {
  const { allowStore } = use;
  return `${describeUsers(use, apiKeys)} · ${allowStore ? "The provider may store calls" : "The provider stores nothing"}`;
}

function nameOf(id: string, apiKeys: readonly ChoosableKey[]): string {
  const key = apiKeys.find((each) => each.id === id);
  return key === undefined ? id : keyName(key);
}

interface UseFieldsProps {
  /** Distinguishes the fields of several forms of a page. */
  readonly idPrefix: string;
  readonly use: ProviderKeyUse;
  readonly apiKeys: readonly ChoosableKey[];
}

export function UseFields({ idPrefix, use, apiKeys }: UseFieldsProps): Child {
  const isChosen = (id: string): boolean => use.apiKeyIds?.includes(id) === true;
  const shown = apiKeys
    .toSorted((a, b) => Number(isChosen(b.id)) - Number(isChosen(a.id)))
    .slice(0, API_KEYS_SHOWN_MAX);
  const hidden = use.apiKeyIds?.filter((id) => !shown.some((key) => key.id === id)) ?? [];
  return (
    <>
      <fieldset>
        <legend>Used by</legend>
        {(["all", "chosen"] as const).map((value) => (
          <Option
            id={`${idPrefix}-${value}`}
            input={{ type: "radio", name: "used_by", value }}
            isChecked={(use.apiKeyIds === null) === (value === "all")}
            label={value === "all" ? "All keys of the workspace" : "Only the keys chosen here:"}
          />
        ))}
        {shown.map((key) => (
          <Option
            id={`${idPrefix}-${key.id}`}
            input={{ type: "checkbox", name: key.id, value: "on" }}
            isChecked={isChosen(key.id)}
            label={keyName(key)}
          />
        ))}
        {apiKeys.length > shown.length ? (
          <p class="hint">
            Only {API_KEYS_SHOWN_MAX} keys are shown: those chosen, then the newest.
          </p>
        ) : null}
        {hidden.length > 0 ? (
          <p class="hint">
            <input type="hidden" name="also_used_by" value={hidden.join(" ")} />
            {hidden.length} more chosen {hidden.length === 1 ? "key is" : "keys are"} kept. To
            remove one, send <code>PATCH /v1/provider-keys/{"{id}"}</code> with{" "}
            <code>api_key_ids</code>.
          </p>
        ) : null}
      </fieldset>
      <Option
        id={`${idPrefix}-store`}
        input={{ type: "checkbox", name: "allow_store", value: "on" }}
        isChecked={use.allowStore}
        label="Allow the provider to store requests and replies"
      />
    </>
  );
}
