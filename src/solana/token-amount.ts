// Formats token amounts as Solana's RPC does. Thread: any (pure).

export interface UiTokenAmount {
  readonly amount: string
  readonly decimals: number
  readonly uiAmount: number | null
  readonly uiAmountString: string
}

export function uiTokenAmount(amount: bigint, decimals: number): UiTokenAmount {
  const uiAmount = Number(amount) / 10 ** decimals
  return {
    amount: String(amount),
    decimals,
    uiAmount: Number.isFinite(uiAmount) ? uiAmount : null,
    uiAmountString: decimalText(String(amount), decimals),
  }
}

/** Exact, without trailing zeros: 1500000 of 6 decimals is `1.5`. */
export function decimalText(amount: string, decimals: number): string {
  if (decimals === 0) return amount
  const digits = amount.padStart(decimals + 1, '0')
  const whole = digits.slice(0, -decimals)
  const fraction = digits.slice(-decimals).replace(/0+$/, '')
  return fraction === '' ? whole : `${whole}.${fraction}`
}
