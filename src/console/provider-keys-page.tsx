/** @jsxImportSource hono/jsx */
// A workspace's own keys at providers: which there are, which of them is used, and the way to bring and delete one.

import type { Child } from "hono/jsx";
import { dayOf } from "../base/day.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import { newFormName } from "../idempotency/form.ts";
import type { ProviderKey } from "../provider-keys/provider-keys.ts";
import { API_KEY_MAX, NAME_MAX } from "../provider-keys/record.ts";
import { AskingLink, Question, withQuery } from "./ask-first.tsx";
import { consolePage, Hidden, pathOf } from "./frame.tsx";
import { minute } from "./words.ts";
import type { Place } from "./workspace.ts";

export const DELETED_SHOWN = 100;

export interface ProviderKeysState {
  readonly visitor: Visitor;
  readonly place: Place;
  /** Newest first: the first of each provider is the one that is used. */
  readonly live: readonly ProviderKey[];
  readonly deleted: DeletedKeys;
  /** For which a key may be brought. */
  readonly providers: readonly string[];
  /** The key that is asked about once more before it is deleted. */
  readonly toDelete?: string | undefined;
  readonly wrong?: string;
  readonly typed?: TypedProviderKey | undefined;
}

interface DeletedKeys {
  readonly keys: readonly ProviderKey[];
  /** The first of the page; absent for the newest. */
  readonly from: string | undefined;
  /** The first of the next page. */
  readonly next: string | undefined;
}

/** What was typed into the form that was refused, without the key itself. */
export interface TypedProviderKey {
  readonly provider: string;
  readonly name?: string | undefined;
}

export function providerKeysPage(state: ProviderKeysState): PageFrame {
  const { visitor, place, live, deleted, providers, wrong, typed } = state;
  const action = pathOf(place.accountId, "/provider-keys");
  return consolePage({
    title: "Provider keys",
    place,
    visitor,
    page: "/provider-keys",
    main: (
      <>
        {wrong === undefined ? null : (
          <p class="wrong" role="alert">
            {wrong}
          </p>
        )}
        <p>
          Calls to a provider's models go on your own account there while a key for it is here, and
          cost no credits. Of several keys for one provider the newest is used: to change a key
          without a gap, add the new one, then delete the old one.
        </p>
        {live.length === 0 ? <p class="note">No provider key is here.</p> : null}
        {live.map((key) => (
          <ProviderKeyCard key_={key} state={state} action={action} />
        ))}
        {providers.length === 0 ? (
          <p class="note">This gateway takes no provider keys: no provider is set up for them.</p>
        ) : (
          <AddForm action={action} visitor={visitor} providers={providers} typed={typed} />
        )}
        {deleted.keys.length === 0 ? null : <Deleted deleted={deleted} action={action} />}
      </>
    ),
  });
}

interface CardProps {
  readonly key_: ProviderKey;
  readonly state: ProviderKeysState;
  readonly action: string;
}

function ProviderKeyCard({ key_: key, state, action }: CardProps): Child {
  const newest = state.live.find(({ provider }) => provider === key.provider);
  return (
    <section class="card" aria-labelledby={key.id}>
      <h2 id={key.id}>
        <Title of={key} />
      </h2>
      <p>
        {newest?.id === key.id
          ? `Calls to ${key.provider} go on it.`
          : `It is not used: a newer key for ${key.provider} is.`}{" "}
        {key.status === "active"
          ? "The provider took it when it was added."
          : "The provider could not be asked about it when it was added."}
      </p>
      <p class="note">
        Added {dayOf(key.createdAt)},{" "}
        {key.lastUsedAt === null ? "never used" : `last used ${minute(key.lastUsedAt)}`}.
      </p>
      {state.toDelete === key.id ? (
        <Question
          visitor={state.visitor}
          action={action}
          fields={{ do: "remove", provider_key: key.id }}
          yes="Delete the key"
          no="Keep it"
          back={action}
        >
          Delete …{key.last4} for good? {whatThen(key, state.live)} Calls that run now go on to
          their end.
        </Question>
      ) : (
        <div class="choices">
          <AskingLink
            href={withQuery(action, { delete: key.id })}
            label="Delete"
            of={`the key that ends in ${key.last4}`}
          />
        </div>
      )}
    </section>
  );
}

/** What calls go on when the key is gone. */
function whatThen({ id, provider }: ProviderKey, live: readonly ProviderKey[]): string {
  const [used, next] = live.filter((one) => one.provider === provider);
  if (used !== undefined && used.id !== id)
    return `Calls to ${provider} stay on the key that ends in ${used.last4}.`;
  if (next !== undefined)
    return `Calls to ${provider} then go on the key that ends in ${next.last4}.`;
  return `Calls to ${provider} then go on the gateway's account, for credits, where it has one there.`;
}

interface AddProps {
  readonly action: string;
  readonly visitor: Visitor;
  readonly providers: readonly string[];
  readonly typed: TypedProviderKey | undefined;
}

function AddForm({ action, visitor, providers, typed }: AddProps): Child {
  return (
    <section class="card" aria-labelledby="add">
      <h2 id="add">Add a provider key</h2>
      <form method="post" action={action}>
        <Hidden visitor={visitor} fields={{ do: "add", once: newFormName() }} />
        <label for="add-provider">Provider</label>
        <select id="add-provider" name="provider" required>
          <option value="">Choose one</option>
          {providers.map((provider) => (
            <option value={provider} selected={provider === typed?.provider}>
              {provider}
            </option>
          ))}
        </select>
        <label for="add-key">Key, as the provider gave it</label>
        <input
          id="add-key"
          name="api_key"
          type="password"
          required
          maxlength={API_KEY_MAX}
          autocomplete="off"
          aria-describedby="add-key-hint"
        />
        <p id="add-key-hint" class="hint">
          The provider is asked about it first, for five seconds at most. It is kept sealed, and
          never shown again.
        </p>
        <label for="add-name">Name; empty for none</label>
        <input id="add-name" name="name" maxlength={NAME_MAX} value={typed?.name} />
        <div class="choices">
          <button type="submit">Add the key</button>
        </div>
      </form>
    </section>
  );
}

function Deleted({
  deleted: { keys, from, next },
  action,
}: {
  readonly deleted: DeletedKeys;
  readonly action: string;
}): Child {
  return (
    <section aria-labelledby="deleted">
      <h2 id="deleted">Deleted</h2>
      <ul>
        {keys.map((key) => (
          <li>
            <Title of={key} />, added {dayOf(key.createdAt)}
          </li>
        ))}
      </ul>
      {next === undefined && from === undefined ? null : (
        <p>
          <a href={`${withQuery(action, { deleted: next })}#deleted`}>
            {next === undefined ? "The newest deleted keys" : "Older deleted keys"}
          </a>
        </p>
      )}
    </section>
  );
}

function Title({ of: { provider, name, last4 } }: { readonly of: ProviderKey }): Child {
  return (
    <>
      {name === null ? null : (
        <>
          <bdi>{name}</bdi>,{" "}
        </>
      )}
      {provider} <code>…{last4}</code>
    </>
  );
}
