// The obvious way to read JSON-RPC: parse the whole text, look at the values. It knows no ids as
// written and no bound on depth; jsonrpc/parse.ts is checked against it.

export type SlowItem = { method: string | null; id: unknown; params?: unknown }

/** Null when it is no JSON; a list of one per item otherwise. */
export function slowParse(text: string): SlowItem[] | null {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return null
  }
  return (Array.isArray(value) ? value : [value]).map(slowItem)
}

function slowItem(value: unknown): SlowItem {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { method: null, id: null }
  const { jsonrpc, id, method, params } = value as Record<string, unknown>
  const isLawful = id === undefined || id === null || ['string', 'number'].includes(typeof id)
  if (!isLawful) return { method: null, id: null }
  const isCall =
    jsonrpc === '2.0' &&
    typeof method === 'string' &&
    (params === undefined || typeof params === 'object')
  if (!isCall) return { method: null, id: id ?? null }
  return { method, id, params: params ?? undefined }
}
