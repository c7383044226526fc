// Types that the parsers of `jsonParsed` share. Thread: any.

/** What a parser returns for an account or an instruction. */
export interface Parsed {
  readonly info: unknown
  readonly type: string
}

export interface ParsedAccount {
  readonly owner: Uint8Array
  readonly pubkey: Uint8Array
  readonly data: Uint8Array
}

/** Reads another account of the same state. */
export type ReadAccount = (
  pubkey: Uint8Array,
) => { readonly owner: Uint8Array; readonly data: Uint8Array } | null
