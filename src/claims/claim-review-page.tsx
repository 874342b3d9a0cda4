/** @jsxImportSource hono/jsx */
// The page on which a human confirms or declines a claim. A person who did not expect it must be able to judge it in
// seconds: who asks, what comes with it, the risk, and two buttons of the same size.

import type { Child } from "hono/jsx";
import type { Nano } from "../base/money/money.ts";
import { formatAge, formatDuration, formatUsd, pluralize } from "../base/text/format.ts";
import { Tag, WorkspaceName } from "../http/pages/components/content.tsx";
import { PostForm } from "../http/pages/components/form.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { SessionUser } from "../http/route.ts";
import { describeScopes, grantedScopes } from "../http/scopes.ts";
import { isBoundedKey } from "../keys/delegation.ts";
import type { Key } from "../keys/key.ts";
import type { ClaimAttempt } from "./claim-attempt.ts";
import { describeNetwork, describeSetup, formatUserCode } from "./claim-format.ts";
import type { ClaimReview } from "./claim-review.ts";
import { CodeField, FieldError } from "./code-field.tsx";
import {
  keyFieldNames,
  type FormFields,
  OTHERS_FIELD,
  type InvalidChoice,
} from "./key-choices-form.ts";
import { changesSince, shownFields } from "./shown-state.ts";

export interface ReviewPageProps {
  readonly attempt: ClaimAttempt;
  readonly review: ClaimReview;
  readonly user: SessionUser;
  /** The code of the link, to compare; absent if it must be entered. */
  readonly userCode: string | undefined;
  readonly now: number;
  /** The values of a rejected form. */
  readonly formValues?: FormFields;
  readonly codeError?: string;
  readonly invalidChoice?: InvalidChoice;
  /** The fields of an earlier form whose keys or setup are not the current ones. */
  readonly shownBefore?: FormFields;
}

export function reviewPage(props: ReviewPageProps): PageLayout {
  const isJoining = props.attempt.invitation;
  return {
    title: isJoining ? "Join a workspace" : "Take over an agent's account",
    isPrivate: true,
    main: (
      <>
        {isJoining ? <JoinHead {...props} /> : <TakeOverHead {...props} />}
        <PostForm user={props.user} action="/claim" fields={{ attempt: props.attempt.id }}>
          {isJoining ? null : <ShownState {...props} />}
          <CodeComparison {...props} />
          {isJoining ? <JoinFacts {...props} /> : <TakeOverFacts {...props} />}
          {isJoining ? null : <KeyChoices {...props} />}
          <div class="actions">
            <button type="submit" name="decision" value="confirm">
              {isJoining ? "Join the workspace" : "Take over the account"}
            </button>
            <button type="submit" name="decision" value="decline" class="secondary" formnovalidate>
              Decline
            </button>
          </div>
        </PostForm>
      </>
    ),
    footer: (
      <p>
        Signed in as {props.user.email}.{" "}
        <a href="/signin?switch=1&return_to=%2Fclaim">Use another account</a>
      </p>
    ),
  };
}

function ShownState({ review, shownBefore }: ReviewPageProps): Child {
  const changes = shownBefore && changesSince(shownBefore, review);
  return (
    <>
      {shownFields(review).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      {changes === undefined ? null : (
        <div class="notice warn" role="alert">
          <p>
            <strong>The account changed after this page was shown.</strong> Nothing was confirmed.
            Check what is marked, and confirm again.
          </p>
          {changes.isKeyGone ? <p>A key that was listed is no longer active.</p> : null}
          {changes.isUnlistedChanged ? <p>Some keys that are not listed changed.</p> : null}
          {changes.isSetupChanged ? <p>The webhooks, sinks or provider keys changed.</p> : null}
        </div>
      )}
    </>
  );
}

function TakeOverHead({ review, attempt, user, now }: ReviewPageProps): Child {
  return (
    <>
      <h1>An agent wants to hand you its account</h1>
      <p class="intro">
        An AI agent opened this account {formatAge(review.openedAt, now)}, without a person. It now
        says that the account is for you, {user.email}.
      </p>
      <p class="notice warn">
        <strong>Did you ask an agent for this?</strong> If not, decline: you lose nothing. The link
        expires in {formatDuration(attempt.expiresAt - now)}.
      </p>
    </>
  );
}

function JoinHead({ review, user, attempt, now }: ReviewPageProps): Child {
  return (
    <>
      <h1>An agent invites you to a workspace</h1>
      <p class="intro">
        The workspace is owned by {review.owner ?? "another person"}. An AI agent that has one of
        its keys invites you, {user.email}, to join it as a developer.
      </p>
      <p class="notice warn">
        <strong>Do you know this workspace?</strong> If not, decline: you lose nothing. The link
        expires in {formatDuration(attempt.expiresAt - now)}.
      </p>
    </>
  );
}

function CodeComparison({ userCode, codeError }: ReviewPageProps): Child {
  if (userCode !== undefined && codeError === undefined)
    return (
      <section class="card compare" aria-labelledby="compare">
        <p id="compare">Your agent should show this code:</p>
        <strong class="code-digits">{formatUserCode(userCode)}</strong>
        <p class="note">If it shows another code, or none, decline.</p>
        <input type="hidden" name="user_code" value={userCode} />
      </section>
    );
  return (
    <section class="card compare">
      <CodeField label="Six-digit code from your agent" error={codeError} />
    </section>
  );
}

function TakeOverFacts({ review, attempt, now }: ReviewPageProps): Child {
  const setUp = describeSetup(review);
  return (
    <dl class="details">
      <dt>Requested by</dt>
      <dd>
        The agent-created account <WorkspaceName id={review.accountId} name={review.accountName} />,{" "}
        {describeOrigin(review, attempt, now)}
      </dd>
      <dt>You get</dt>
      <dd>
        Its balance of {formatUsd(review.balance)}
        {review.bonus === 0n ? "" : ` and a bonus of ${formatUsd(review.bonus)}, once per person`},
        its {pluralize(review.listed.length + review.unlisted.length, "key")} and its records
        {review.bonusState === "daily_budget_spent"
          ? ". No bonus today: the daily bonus budget of this gateway is spent"
          : ""}
      </dd>
      <dt>Usage so far</dt>
      <dd>
        {review.calls === 0
          ? "Nothing"
          : `${pluralize(review.calls, "model call")} for ${formatUsd(review.spent)}`}
      </dd>
      {setUp.length === 0 ? null : (
        <>
          <dt>Also set up</dt>
          {setUp.map((line) => (
            <dd>{line}</dd>
          ))}
        </>
      )}
      <dt>Risk</dt>
      <dd>
        <strong>Anyone who has one of its keys can spend this balance</strong>, and credits that you
        add later
      </dd>
    </dl>
  );
}

function describeOrigin(review: ClaimReview, attempt: ClaimAttempt, now: number): string {
  const opened = `opened ${formatAge(review.openedAt, now)}`;
  const requested = `requested this ${formatAge(attempt.createdAt, now)}`;
  return review.openedFrom === attempt.network
    ? `${opened}; it ${requested}, both from ${describeNetwork(attempt.network)}`
    : `${opened} from ${describeNetwork(review.openedFrom)}; it ${requested} from ${describeNetwork(attempt.network)}`;
}

function JoinFacts({ review, attempt, now }: ReviewPageProps): Child {
  return (
    <dl class="details">
      <dt>Requested by</dt>
      <dd>
        The workspace <WorkspaceName id={review.accountId} name={review.accountName} />, opened{" "}
        {formatAge(review.openedAt, now)}; it requested this {formatAge(attempt.createdAt, now)}{" "}
        from {describeNetwork(attempt.network)}
      </dd>
      <dt>You can</dt>
      <dd>View its usage, and create keys within an allowance, which spend its balance</dd>
      <dt>You cannot</dt>
      <dd>Buy credits, invite or remove people</dd>
      <dt>Visible to members</dt>
      <dd>Your email address. The workspace has {pluralize(review.memberCount, "member")}</dd>
    </dl>
  );
}

function KeyChoices(props: ReviewPageProps): Child {
  const { review, attempt, formValues, invalidChoice, shownBefore, now } = props;
  const changes = shownBefore && changesSince(shownBefore, review);
  return (
    <section aria-labelledby="keys">
      <h2 id="keys">Keys</h2>
      <p>Narrow the keys that you recognize to what they need, and revoke the others.</p>
      {review.listed.map((key) => (
        <KeyFields
          apiKey={key}
          isRequesting={key.id === attempt.keyId}
          mark={changes?.keys.get(key.id)}
          formValues={formValues ?? {}}
          error={invalidChoice?.keyId === key.id ? invalidChoice.message : undefined}
          now={now}
        />
      ))}
      {review.listed.length === 0 ? <p>This account has no active keys.</p> : null}
      {review.unlisted.length === 0 ? null : (
        <div class="option">
          <input
            type="checkbox"
            id={OTHERS_FIELD}
            name={OTHERS_FIELD}
            value="revoke"
            checked={formValues?.[OTHERS_FIELD] === "revoke"}
          />
          <label for={OTHERS_FIELD}>
            Revoke the {pluralize(review.unlisted.length, "key")} not listed here
          </label>
        </div>
      )}
    </section>
  );
}

interface KeyFieldsProps {
  readonly apiKey: Key;
  /** Whether the attempt was started with this key. */
  readonly isRequesting: boolean;
  /** What is different from the page that was shown before. */
  readonly mark: "New" | "Changed" | undefined;
  readonly formValues: FormFields;
  readonly error: string | undefined;
  readonly now: number;
}

function KeyFields(props: KeyFieldsProps): Child {
  const { apiKey: key, isRequesting, mark, formValues, error, now } = props;
  const names = keyFieldNames(key.id);
  const errorId = `${names.usd}.wrong`;
  const selected = formValues[names.choice] ?? "keep";
  const used =
    key.lastUsedAt === null
      ? isRequesting
        ? "used just now"
        : "never used"
      : `last used ${formatAge(key.lastUsedAt, now)}`;
  const radio = (value: string) => (
    <input
      type="radio"
      id={`${names.choice}.${value}`}
      name={names.choice}
      value={value}
      checked={selected === value}
    />
  );
  return (
    <fieldset>
      <legend>
        <bdi>{key.name ?? "Key"}</bdi> <code>{`${key.prefix}…${key.last4}`}</code>
        {mark === undefined ? null : <Tag tone="warn">{mark}</Tag>}
      </legend>
      <p class="hint">
        {isRequesting ? "Used by the agent that asks; " : ""}
        created {formatAge(key.createdAt, now)}, {used}, {formatUsd(key.spent)} spent
        {key.limit === null
          ? ""
          : `, limited to ${formatUsd(key.limit)} ${key.limitWindow === null ? "in total" : `per ${key.limitWindow}`}`}
        . It may {describeScopes(grantedScopes(key.scopes, isBoundedKey(key)))}.
      </p>
      <div class="option">
        {radio("keep")}
        <label for={`${names.choice}.keep`}>Keep</label>
      </div>
      <div class="option amount nested">
        <LimitFields
          keyId={key.id}
          current={key.limit}
          formValues={formValues}
          errorId={error && errorId}
        />
      </div>
      <div class="option nested">
        <input
          type="checkbox"
          id={names.models}
          name={names.models}
          value="only"
          checked={formValues[names.models] === "only"}
        />
        <label for={names.models}>Only let it call models and read usage</label>
      </div>
      <div class="option">
        {radio("revoke")}
        <label for={`${names.choice}.revoke`}>
          Revoke{isRequesting ? ": this agent loses access immediately" : ""}
        </label>
      </div>
      <FieldError id={errorId} message={error} />
    </fieldset>
  );
}

/** An empty limit keeps the current one. */
function LimitFields({
  keyId,
  current,
  formValues,
  errorId,
}: Pick<KeyFieldsProps, "formValues"> & {
  readonly keyId: string;
  readonly current: Nano | null;
  /** The element with the error, if the limit was rejected. */
  readonly errorId: string | undefined;
}): Child {
  const names = keyFieldNames(keyId);
  return (
    <>
      <label for={names.usd}>{current === null ? "Limit to" : "Change the limit to"}</label>
      <input
        id={names.usd}
        type="text"
        inputmode="decimal"
        name={names.usd}
        value={formValues[names.usd]}
        placeholder={current === null ? "no limit" : "unchanged"}
        aria-label="Limit in US dollars"
        aria-invalid={errorId === undefined ? undefined : "true"}
        aria-describedby={errorId}
        autofocus={errorId !== undefined}
      />
      <span>US dollars</span>
      <select name={names.window} aria-label="How often the limit resets">
        {WINDOW_LABELS.map(([value, label]) => (
          <option value={value} selected={(formValues[names.window] ?? "month") === value}>
            {label}
          </option>
        ))}
      </select>
    </>
  );
}

const WINDOW_LABELS = [
  ["day", "per day"],
  ["week", "per week"],
  ["month", "per month"],
  ["ever", "in total"],
] as const;
