/** @jsxImportSource hono/jsx */
// The fields of a key's settings, for a new key and for one that is changed.

import type { Child } from "hono/jsx";
import { LIMIT_WINDOWS } from "../../base/money/spend-window.ts";
import { Field, SelectField, TextField } from "../../http/pages/components/form.tsx";
import {
  type KeyField,
  type KeyFormError,
  type KeyFormValues,
  RESTRICTION_FIELDS,
} from "./key-form.ts";

const WINDOW_LABELS = { day: "daily", week: "weekly", month: "monthly" } as const;

export interface KeyFieldsProps {
  /** The beginning of the ids of the inputs. */
  readonly id: string;
  readonly values: KeyFormValues;
  readonly error: KeyFormError | undefined;
  readonly sendsEmails: boolean;
}

/** What the input of a field has in common with those of all others. */
type InputOf = (
  field: KeyField,
  idEnd?: string,
) => {
  readonly id: string;
  readonly name: KeyField;
  readonly value: string | undefined;
  readonly error: string | undefined;
};

export function KeyFields({ id, values, error, sendsEmails }: KeyFieldsProps): Child {
  const isRestricted = RESTRICTION_FIELDS.some(
    (field) => (values[field] ?? "") !== "" || error?.field === field,
  );
  const inputOf: InputOf = (field, idEnd = field) => ({
    id: `${id}-${idEnd}`,
    name: field,
    value: values[field],
    error: error?.field === field ? error.message : undefined,
  });
  return (
    <>
      <Field {...inputOf("name")} label="Name" maxLength={100} />
      <div class="fields">
        <Field
          {...inputOf("limit_usd", "limit")}
          label="Limit (USD, optional)"
          inputMode="decimal"
          hint="A key with a limit cannot buy credits, use webhooks or read the audit log."
        />
        <div class="field">
          <label for={`${id}-window`}>Resets</label>
          <select id={`${id}-window`} name="limit_window">
            <option value="">never</option>
            {LIMIT_WINDOWS.map((option) => (
              <option value={option} selected={option === values.limit_window}>
                {WINDOW_LABELS[option]}
              </option>
            ))}
          </select>
        </div>
        <Field
          {...inputOf("last_day", "expiry")}
          type="date"
          label="Expires after (UTC, optional)"
        />
      </div>
      <details class="more" open={isRestricted}>
        <summary>Models, rates and alerts</summary>
        <RestrictionFields inputOf={inputOf} sendsEmails={sendsEmails} />
      </details>
    </>
  );
}

interface IdentityProps {
  readonly values: KeyFormValues;
  readonly error: KeyFormError | undefined;
}

/** The fields of a new key for jobs with tokens of an issuer. */
export function IdentityFields({ values, error }: IdentityProps): Child {
  const { oidc_issuer: issuer = "", oidc_subject: subject = "" } = values;
  const errorOf = (field: KeyField): string | undefined =>
    error?.field === field ? error.message : undefined;
  const isOpen = issuer !== "" || subject !== "" || error?.field?.startsWith("oidc_") === true;
  return (
    <details class="more" open={isOpen}>
      <summary>Workload identity</summary>
      <p class="hint">
        A key without a secret: jobs send tokens that an OpenID Connect issuer gives them. See{" "}
        <a href="/docs/keys-without-secrets">Keys without secrets</a>.
      </p>
      <div class="fields">
        <Field
          id="mint-oidc-issuer"
          name="oidc_issuer"
          label="Issuer"
          placeholder="https://token.actions.githubusercontent.com"
          value={issuer}
          error={errorOf("oidc_issuer")}
        />
        <Field
          id="mint-oidc-subject"
          name="oidc_subject"
          label="Subject"
          placeholder="repo:acme/app:ref:refs/heads/main"
          value={subject}
          error={errorOf("oidc_subject")}
          hint="A * at the end stands for any end: repo:acme/app:*"
        />
      </div>
    </details>
  );
}

const NUMBER_LABELS = {
  requests_per_minute: "Requests per minute",
  tokens_per_minute: "Tokens per minute",
  max_concurrent_calls: "Calls at the same time",
} as const;

interface RestrictionProps {
  readonly inputOf: InputOf;
  readonly sendsEmails: boolean;
}

function RestrictionFields({ inputOf, sendsEmails }: RestrictionProps): Child {
  return (
    <>
      <div class="fields">
        <TextField
          {...inputOf("allowed_models", "models")}
          label="Allowed models"
          hint="One per line, such as openai/*. Empty: all models."
        />
        <TextField
          {...inputOf("allowed_providers", "providers")}
          label="Allowed providers"
          hint="One per line, such as anthropic. Empty: all providers."
        />
        <TextField
          {...inputOf("allowed_endpoints", "endpoints")}
          label="Allowed endpoints"
          hint="One per line, such as chat, responses or embeddings. Empty: all endpoints."
        />
        <TextField
          {...inputOf("allowed_mcp_servers", "mcp-servers")}
          label="Allowed MCP servers"
          hint="Names of the workspace's servers, one per line, or none. Empty: all servers."
        />
      </div>
      <div class="fields">
        {(["requests_per_minute", "tokens_per_minute", "max_concurrent_calls"] as const).map(
          (field) => (
            <Field {...inputOf(field)} label={NUMBER_LABELS[field]} inputMode="numeric" />
          ),
        )}
      </div>
      <div class="fields">
        <Field
          {...inputOf("max_price_per_million_usd", "price")}
          label="Highest price per million tokens (USD)"
          inputMode="decimal"
          hint="More expensive models are refused."
        />
        <Field
          {...inputOf("session_limit_usd", "session-limit")}
          label="Limit of each session (USD)"
          inputMode="decimal"
          hint="For the sessions of agents, such as Claude Code."
        />
        <Field
          {...inputOf("session")}
          label="Session of all calls"
          hint="Calls of other sessions are refused. Empty: any session."
        />
        <Field
          {...inputOf("data_policy", "data")}
          label="Data policy of providers"
          placeholder="zdr"
          hint="Comma-separated: zdr (nothing is stored), deny (no training), region=us. Empty: any provider."
        />
        <Field
          {...inputOf("alert_percents", "alerts")}
          label="Alert at these percentages of the limit"
          placeholder="80, 100"
          hint={`Sent by ${sendsEmails ? "email and " : ""}webhook. Needs a limit.`}
        />
      </div>
      <ReplyFields inputOf={inputOf} />
    </>
  );
}

/** What is made of requests and replies, besides sending them. */
function ReplyFields({ inputOf }: Pick<RestrictionProps, "inputOf">): Child {
  return (
    <div class="fields">
      <ChoiceField
        {...inputOf("receipts")}
        label="Signed receipts"
        options={["If a call asks for one", "For every call"]}
      />
      <Field
        {...inputOf("cache_ttl", "cache")}
        label="Cache replies (seconds)"
        inputMode="numeric"
        hint="An identical request gets the same reply, free of charge."
      />
      <ChoiceField
        {...inputOf("prompt_logging", "prompts")}
        label="Prompt logging"
        options={["Off", "Keep requests and replies"]}
      />
    </div>
  );
}

type ChoiceProps = ReturnType<InputOf> & {
  readonly label: string;
  /** Without the setting, and with it. */
  readonly options: readonly [string, string];
};

function ChoiceField({ id, name, value, label, options: [off, on] }: ChoiceProps): Child {
  return (
    <SelectField
      id={id}
      name={name}
      label={label}
      options={[
        ["", off],
        ["true", on],
      ]}
      value={value}
    />
  );
}
