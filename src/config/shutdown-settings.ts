// Settings of how a process stops.

import { integer } from "./setting-schemas.ts";

export const SHUTDOWN_SETTINGS = {
  POSTERN_SHUTDOWN_DELAY_SECONDS: {
    defaultValue: "5; 0 in development",
    description:
      "How long requests are still served after SIGTERM, while `/readyz` already answers 503: longer than your load balancer needs to notice.",
  },
  POSTERN_DRAIN_SECONDS: {
    defaultValue: "30",
    description: "How long requests in flight may take to finish after the shutdown delay.",
  },
} as const;

export const SHUTDOWN_ENVIRONMENT = {
  POSTERN_SHUTDOWN_DELAY_SECONDS: integer(0, 600).optional(),
  POSTERN_DRAIN_SECONDS: integer(0, 3_600).default(30),
};
