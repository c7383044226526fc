// Types that the parsers of `jsonParsed` share.

/** What a parser returns for an account or an instruction. */
export interface Parsed {
  readonly info: unknown
  readonly type: string
}

export interface AccountData {
  readonly owner: Uint8Array
  readonly data: Uint8Array
}

export interface ParsedAccount extends AccountData {
  readonly pubkey: Uint8Array
}

/** Reads another account of the same state. */
export type ReadAccount = (pubkey: Uint8Array) => AccountData | null
