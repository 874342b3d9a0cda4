/** @jsxImportSource hono/jsx */
// A new signing secret of a webhook, which is shown once.

import type { Child } from "hono/jsx";
import { CodeBlock } from "../../http/pages/components/content.tsx";

export function SecretNotice({ secret }: { readonly secret: string }): Child {
  return (
    <section class="card notice" role="status">
      <h2>Signing secret</h2>
      <p>Copy it now. It is not shown again.</p>
      <CodeBlock code={secret} />
    </section>
  );
}
