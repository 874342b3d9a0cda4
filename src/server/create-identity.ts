// What humans meet: sign-in where somebody vouches for them, their sessions, and the claim.

import { listAllMembers } from "../accounts/members.ts";
import type { MemberSummary } from "../accounts/routes.ts";
import type { Secret } from "../base/secret.ts";
import { type Claims, createClaims } from "../claims/claims.ts";
import { sweepRateCounters } from "../claims/rate-counters.ts";
import type { Config } from "../config/config.ts";
import { onClaimEvent } from "../events/producers.ts";
import { createSessions, type Sessions, sweepSessions } from "../people/sessions.ts";
import { createSignIn, type IdentitySettings, type SignIn } from "../people/sign-in.ts";
import type { Db, Reader } from "../store/db.ts";

export interface IdentityServices {
  readonly claims: Claims;
  readonly sessions: Sessions;
  readonly signIn: SignIn | undefined;
  /** In development there is always the bundled provider, which the tests of other rooms do without. */
  readonly isSignInDisabled: boolean;
  readonly master: Secret;
  readonly baseUrl: string;
  readonly vendor: string;
  readonly listMembers: (reader: Reader, accountId: string) => Promise<readonly MemberSummary[]>;
}

export interface IdentityServicesDeps {
  readonly db: Db;
  readonly master: Secret;
  /** Who vouches for humans; undefined where nobody does. */
  readonly identity: IdentitySettings | undefined;
}

export function createIdentityServices(
  config: Config,
  deps: IdentityServicesDeps,
): IdentityServices {
  const { db, master, identity } = deps;
  const { baseUrl, vendor } = config;
  const { claimsPerHour, claimBonusPerDay } = config.limits;
  return {
    claims: createClaims({
      master,
      limits: { startsPerAccount: claimsPerHour, bonusPerDay: claimBonusPerDay },
      onEvent: onClaimEvent,
    }),
    sessions: createSessions({ db, master, baseUrl }),
    signIn:
      identity === undefined ? undefined : createSignIn({ settings: identity, baseUrl, master }),
    isSignInDisabled: isSignInDisabled(config, identity),
    master,
    baseUrl,
    vendor,
    listMembers: async (reader, accountId) =>
      (await listAllMembers(reader, accountId)).map(({ email, role }) => ({ email, role })),
  };
}

/** Where no human comes in, an account is not handed to one either. */
export function isSignInDisabled(
  { development }: Pick<Config, "development">,
  identity: IdentityServicesDeps["identity"],
): boolean {
  return identity === undefined && !development;
}

/** Forgets sessions and counts that mean nothing any more. */
export async function sweepSessionsAndCounters(db: Db, now: number): Promise<void> {
  await db.write((tx) => sweepSessions(tx, now));
  await db.write((tx) => sweepRateCounters(tx, now));
}
