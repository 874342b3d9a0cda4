// Whom the house tells of its changes: what each room calls in its transactions, the webhooks, and who carries them out.

import type { Log } from "./base/log.ts";
import type { Secret } from "./base/secret.ts";
import { tellOfMembers } from "./cashier.ts";
import type { Clock } from "./clocks.ts";
import type { Config } from "./config.ts";
import {
  onAccountCreated,
  onKeyChange,
  onProviderKeyChange,
  onSessionsEnded,
} from "./events/announce.ts";
import { createPostman, type Postman } from "./events/postman.ts";
import { createWebhooks, type Webhooks } from "./events/webhooks.ts";
import type { Db } from "./store/db.ts";

const POST_MS = 1_000;
const SWEEP_MS = 3_600_000;

export interface Mailroom {
  readonly webhooks: Webhooks;
  readonly onAccountCreated: typeof onAccountCreated;
  readonly onKeyChange: typeof onKeyChange;
  readonly onMemberChange: typeof tellOfMembers;
  readonly onProviderKeyChange: typeof onProviderKeyChange;
  readonly onSessionsEnded: typeof onSessionsEnded;
  readonly postman: Postman;
  readonly mailClocks: readonly Clock[];
}

export interface MailroomGround {
  readonly db: Db;
  readonly master: Secret;
  readonly log: Log;
  readonly now: () => number;
}

export function openMailroom(config: Config, { master, ...ground }: MailroomGround): Mailroom {
  const allowLoopback = config.development;
  const webhooks = createWebhooks({ master, allowLoopback });
  const postman = createPostman({ ...ground, webhooks, allowLoopback });
  return {
    webhooks,
    onAccountCreated,
    onKeyChange,
    onMemberChange: tellOfMembers,
    onProviderKeyChange,
    onSessionsEnded,
    postman,
    mailClocks: [
      [POST_MS, postman.tick],
      [SWEEP_MS, postman.sweep],
    ],
  };
}
