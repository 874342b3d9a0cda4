// What providers write about the gateway's account into their errors, and what must stay readable.

import { expect, test } from "bun:test";
import { createSecret } from "../../src/base/secret.ts";
