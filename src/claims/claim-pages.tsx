/** @jsxImportSource hono/jsx */
// The claim pages other than the review page: one for each state of an attempt.

import type { Child } from "hono/jsx";
import type { Role } from "../accounts/members.ts";
import { formatAge, formatUsd, pluralize } from "../base/text/format.ts";
import { WorkspaceName } from "../http/pages/components/content.tsx";
import { PostForm } from "../http/pages/components/form.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { SessionUser } from "../http/route.ts";
import { describeScopes, grantedScopes } from "../http/scopes.ts";
import { isBoundedKey } from "../keys/delegation.ts";
import type { Key } from "../keys/key.ts";
import type { ClaimAttempt, ClaimState } from "./claim-attempt.ts";
import { describeNetwork, describeSetup, waitingClaimPath } from "./claim-format.ts";
import { CLAIM_CODE_PATH } from "./claim-link.ts";
import type { ClaimReview } from "./claim-review.ts";
import { CodeField } from "./code-field.tsx";
import { maskEmail } from "./email-address.ts";

export interface ClaimPage {
  readonly status: number;
  readonly layout: PageLayout;
}

const SIGN_IN_URL = "/signin?return_to=%2Fclaim";
const SIGN_IN_FOR_CODE_URL = "/signin?return_to=%2Fclaim%2Fcode";
const SWITCH_ACCOUNT_URL = "/signin?switch=1&return_to=%2Fclaim";

export function invalidPage(): ClaimPage {
  return textPage(404, "This link is not valid", [
    "It is incomplete, or it does not belong to a claim that waits for you.",
    "Ask your agent for the full link, or for a new one.",
  ]);
}

const ENDED_PAGES: Readonly<
  Record<Exclude<ClaimState, "initiated" | "claimed">, readonly [number, string, readonly string[]]>
> = {
  expired: [
    410,
    "This link has expired",
    [
      "Links expire after 15 minutes. Nothing was changed.",
      "If you still want the account, ask your agent to start a new claim.",
    ],
  ],
  superseded: [
    410,
    "There is a newer link",
    [
      "Your agent started a new claim, so this link no longer works. Nothing was changed.",
      "Open the newest link that your agent gave you.",
    ],
  ],
  locked: [
    410,
    "Too many wrong codes",
    [
      "A link is disabled after five wrong codes, to prevent guessing. Nothing was changed.",
      "If you still want the account, ask your agent to start a new claim, and compare the code.",
    ],
  ],
  declined: [
    200,
    "You declined",
    [
      "Nothing was changed, and the account is not yours. The agent will see that you declined.",
      "If it was a mistake, ask your agent to start a new claim.",
    ],
  ],
  claimed_by_other: [
    409,
    "Claimed by someone else",
    [
      "The account was claimed with another email address before you confirmed.",
      "If you work together, ask its owner, or your agent, to invite you.",
    ],
  ],
};

export function endedPage(state: keyof typeof ENDED_PAGES): ClaimPage {
  const [status, title, paragraphs] = ENDED_PAGES[state];
  return textPage(status, title, paragraphs);
}

export function isEnded(state: ClaimState): state is keyof typeof ENDED_PAGES {
  return Object.hasOwn(ENDED_PAGES, state);
}

export function claimedByAnotherPage(): ClaimPage {
  return textPage(409, "Already claimed", [
    "Another person with this email address has already used this link. Nothing was changed.",
    "If that was not you, ask the operator of this gateway for help.",
  ]);
}

/** For the person who claimed with this link and has left the workspace since. */
export function formerMemberPage(user: SessionUser): ClaimPage {
  return page(
    403,
    "You have left this workspace",
    () => (
      <>
        <h1>You have left this workspace</h1>
        <p class="intro">
          You used this link before. Since then you left the workspace, or its owner removed you.
        </p>
        <p>To join it again, ask its owner for an invitation.</p>
      </>
    ),
    user,
  );
}

/** The cookie holds only the newest link, so a form in an older tab may belong to another claim. */
export function staleFormPage({ status, layout }: ClaimPage): ClaimPage {
  return {
    status: status === 200 ? 409 : status,
    layout: {
      ...layout,
      main: (
        <>
          <p class="notice danger" role="alert">
            <strong>Nothing was changed.</strong> The form that you submitted belongs to another
            claim. This page shows the claim whose link you opened last. To decide on the other
            claim, open its link again.
          </p>
          {layout.main}
        </>
      ),
    },
  };
}

/** Shown before sign-in, so it reveals nothing about the account. */
export function landingPage(isLinked: boolean): ClaimPage {
  return page(200, "Sign in to continue", () => (
    <>
      <h1>{isLinked ? "An agent needs your decision" : "Take over an agent's account"}</h1>
      <p class="intro">
        {isLinked
          ? "An AI agent that uses an account here named you as the person to hand it to or to invite."
          : "If an agent gave you a six-digit code, sign in and enter it here."}
      </p>
      <p>
        Sign in with the email address that you gave to the agent. You can review the request before
        anything changes, and you can decline.
      </p>
      <p>
        <a class="button" href={isLinked ? SIGN_IN_URL : SIGN_IN_FOR_CODE_URL}>
          Sign in
        </a>
      </p>
    </>
  ));
}

export interface CodeError {
  readonly status: number;
  readonly message: string;
}

interface CodePageProps {
  readonly user: SessionUser;
  /** The claims that name the verified email of the person. */
  readonly waiting: readonly ClaimAttempt[];
  readonly error: CodeError | undefined;
  readonly now: number;
}

export function codePage({ user, waiting, error, now }: CodePageProps): ClaimPage {
  return page(
    error?.status ?? 200,
    "Enter the code",
    () => (
      <>
        <h1>Enter the code</h1>
        <p class="intro">Your agent shows a six-digit code that identifies its claim.</p>
        <PostForm user={user} action="/claim/code">
          <CodeField label="Six-digit code" error={error?.message} />
          <button type="submit">Continue</button>
        </PostForm>
        <WaitingClaims waiting={waiting} email={user.email} now={now} />
      </>
    ),
    user,
  );
}

/** Each claim still asks for its code: an agent that the person does not know can name any email. */
function WaitingClaims({
  waiting,
  email,
  now,
}: Omit<CodePageProps, "user" | "error"> & { readonly email: string }): Child {
  if (waiting.length === 0)
    return <p class="note">No claim waits for {email}. Links and codes expire after 15 minutes.</p>;
  return (
    <>
      <h2>Claims that wait for you</h2>
      <ul>
        {waiting.map((attempt) => (
          <li>
            <a href={waitingClaimPath(attempt)}>
              {attempt.invitation ? "Join the workspace" : "Take over the account"}{" "}
              <WorkspaceName id={attempt.accountId} name={attempt.accountName} />
            </a>
            , requested {formatAge(attempt.createdAt, now)} from {describeNetwork(attempt.network)}
          </li>
        ))}
      </ul>
    </>
  );
}

/** The named email is masked: the link may have reached the wrong person. */
export function wrongAccountPage(attempt: ClaimAttempt, user: SessionUser): ClaimPage {
  return page(403, "Wrong account", () => (
    <>
      <h1>This is for another account</h1>
      <p class="intro">
        You are signed in as {user.email}, but the agent named{" "}
        <strong>{maskEmail(attempt.email)}</strong>.
      </p>
      <p>
        If that address is yours too, sign in with it. Otherwise, close this page. Nothing was
        changed.
      </p>
      <p>
        <a class="button" href={SWITCH_ACCOUNT_URL}>
          Sign in with another account
        </a>
      </p>
    </>
  ));
}

export interface ClaimedPageProps {
  readonly attempt: ClaimAttempt;
  /** The current role: ownership may have been transferred since the claim. */
  readonly role: Role;
  readonly review: ClaimReview;
  /** The keys that the claim revoked. */
  readonly revoked: readonly Key[];
  readonly user: SessionUser;
  /** Absent without a console. */
  readonly consolePath: string;
}

export function claimedPage(props: ClaimedPageProps): ClaimPage {
  const { role, user, consolePath } = props;
  return page(
    200,
    role === "owner" ? "The account is yours" : "You have joined",
    () => (
      <>
        {role === "owner" ? <OwnerClaimed {...props} /> : <DeveloperJoined {...props} />}
        <p>
          <a class="button" href={`${consolePath}/${props.review.accountId}`}>
            Open the workspace
          </a>
        </p>
        <p class="note">
          Your agent sees this automatically. You can close this page, or review{" "}
          <a href="/sessions">your sessions</a>.
        </p>
      </>
    ),
    user,
  );
}

const BONUS_ALREADY_GRANTED = "No bonus was added: it is granted once per person.";
const DAILY_BUDGET_SPENT =
  "No bonus was added: the daily bonus budget of this gateway was spent when you confirmed. You can still get the bonus with another account that you claim.";
const NO_BONUS_REASONS = {
  already_granted: BONUS_ALREADY_GRANTED,
  available: DAILY_BUDGET_SPENT,
  daily_budget_spent: DAILY_BUDGET_SPENT,
} as const;

const REVOKED_LISTED_MAX = 12;

function OwnerClaimed({ attempt, review, revoked }: ClaimedPageProps): Child {
  const keys = review.listed.length + review.unlisted.length;
  const setUp = describeSetup(review);
  return (
    <>
      <h1>The account is yours</h1>
      <p class="intro">
        <WorkspaceName id={review.accountId} name={review.accountName} /> is now a workspace that
        you own, with a balance of {formatUsd(review.balance)}.
      </p>
      <h2>What changed</h2>
      <ul>
        {attempt.invitation ? (
          <li>
            {attempt.claimedRole === "owner"
              ? "You already owned this workspace. Nothing was changed."
              : "You joined it as a developer, and its ownership was transferred to you later."}
          </li>
        ) : (
          <li>
            {attempt.bonus > 0n
              ? `A bonus of ${formatUsd(attempt.bonus)} was added to the balance.`
              : NO_BONUS_REASONS[review.bonusState]}
          </li>
        )}
        <li>
          {keys === 0
            ? "No key is active, so no agent can use the account."
            : `${pluralize(keys, "key")} ${keys === 1 ? "is" : "are"} active: anyone who has ${keys === 1 ? "it" : "one"} can spend the balance.`}
          <KeyList review={review} />
        </li>
        {revoked.length === 0 ? null : (
          <li>
            {pluralize(revoked.length, "key")} {revoked.length === 1 ? "was" : "were"} revoked with
            the claim.
            <ul>
              {revoked.slice(0, REVOKED_LISTED_MAX).map((key) => (
                <li>
                  <KeyLabel apiKey={key} />
                </li>
              ))}
              {revoked.length <= REVOKED_LISTED_MAX ? null : (
                <li>and {pluralize(revoked.length - REVOKED_LISTED_MAX, "other")}</li>
              )}
            </ul>
          </li>
        )}
        {setUp.map((line) => (
          <li>{line}.</li>
        ))}
        <li>Your other workspaces did not change.</li>
      </ul>
      <h2>Next steps</h2>
      <p>
        Before you add credits, revoke or limit every key
        {review.webhookHosts.length + review.sinkHosts.length === 0
          ? ""
          : ", and delete every webhook and sink,"}{" "}
        that you do not recognize. Calls are charged to this balance at the providers' list prices
        {review.ownProviders.length === 0 ? "" : ", except calls that use a provider key"}.
      </p>
    </>
  );
}

function KeyLabel({ apiKey: { name, prefix, last4 } }: { readonly apiKey: Key }): Child {
  return (
    <>
      <bdi>{name ?? "Key"}</bdi> <code>{`${prefix}…${last4}`}</code>
    </>
  );
}

function KeyList({ review }: { readonly review: ClaimReview }): Child {
  if (review.listed.length === 0) return null;
  return (
    <ul>
      {review.listed.map((key) => (
        <li>
          <KeyLabel apiKey={key} />
          {key.limit === null
            ? ", no limit"
            : `, limited to ${formatUsd(key.limit)} ${key.limitWindow === null ? "in total" : `per ${key.limitWindow}`}`}
          . It may {describeScopes(grantedScopes(key.scopes, isBoundedKey(key)))}.
        </li>
      ))}
      {review.unlisted.length === 0 ? null : (
        <li>and {pluralize(review.unlisted.length, "other")}</li>
      )}
    </ul>
  );
}

function DeveloperJoined({ review }: ClaimedPageProps): Child {
  return (
    <>
      <h1>You have joined the workspace</h1>
      <p class="intro">
        You are a developer in <WorkspaceName id={review.accountId} name={review.accountName} />,
        which is owned by {review.owner ?? "another person"}.
      </p>
      <p>
        You can view its usage, and create keys within an allowance: the Keys page says how much, or
        whom to ask. Your other workspaces did not change.
      </p>
    </>
  );
}

function textPage(status: number, title: string, paragraphs: readonly string[]): ClaimPage {
  return page(status, title, () => (
    <>
      <h1>{title}</h1>
      {paragraphs.map((paragraph, index) => (
        <p class={index === 0 ? "intro" : undefined}>{paragraph}</p>
      ))}
      <p>
        <a href={CLAIM_CODE_PATH}>Enter the code of another claim</a>
      </p>
    </>
  ));
}

function page(status: number, title: string, main: () => Child, user?: SessionUser): ClaimPage {
  return {
    status,
    layout: {
      title,
      isPrivate: true,
      main: main(),
      footer:
        user === undefined ? undefined : (
          <form method="post" action="/signout">
            <p>
              Signed in as {user.email}. <input type="hidden" name="csrf" value={user.csrf} />
              <button type="submit" class="plain">
                Sign out
              </button>
            </p>
          </form>
        ),
    },
  };
}
