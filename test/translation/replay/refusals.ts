// Why a recorded request is rightly refused at another model: what it asks for does not exist there, and dropping it would
// change the reply, or it refers to storage at the recorded account.

const MEANING: readonly (readonly [reason: RegExp, why: string])[] = [
  [/refers to an object in the provider account/, "state or files of the recorded account"],
  [/The server tool|server tool .* runs only/, "a server tool of another provider"],
  [/^400 (?:tools|web_search_options): The price of this/, "a server tool without a price"],
  [/What the tool .* costs/, "a server tool without a price"],
  [/^400 tools\[\]\.model: The advisor model/, "an advisor of another provider"],
  [/^400 (?:web_search_options|mcp_servers|audio|container):/, "a server tool or audio output"],
  [/custom tools with free-form input/, "a custom tool"],
  [
    /This content is specific to|native content in/,
    "a server tool's call or result in the history",
  ],
  [/(?:does not|cannot) (?:support audio|fetch)|supports only text in tool results/, "media"],
  [/does not support citations|document context/, "citations of documents"],
  [/^400 (?:n|logprobs|include|top_logprobs):/, "several choices, or log probabilities"],
  [/supports only text in instructions/, "tools that instructions add later"],
  [/stored at another provider|file is stored/, "a file at another provider"],
];

export function isAboutMeaning(reason: string): boolean {
  return MEANING.some(([pattern]) => pattern.test(reason));
}
