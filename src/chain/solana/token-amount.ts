// Formats token amounts as Solana's RPC does.

export interface UiTokenAmount {
  readonly amount: string
  readonly decimals: number
  readonly uiAmount: number | null
  readonly uiAmountString: string
}

/** How amounts of a mint are shown. */
export interface TokenUnit {
  readonly decimals: number
  /** Formats an amount with interest or a multiplier; null when the mint has neither. */
  readonly scaled: ((amount: bigint) => string) | null
}

/** Above this a validator computes no `uiAmount`: 10^20 exceeds its integers. */
const floatDecimalsMax = 19

export function uiTokenAmount(
  amount: bigint,
  decimals: number,
  scaled: TokenUnit['scaled'] = null,
): UiTokenAmount {
  const text = scaled === null ? decimalText(String(amount), decimals) : scaled(amount)
  const uiAmount = scaled === null ? Number(amount) / 10 ** decimals : Number.parseFloat(text)
  const isFloat = Number.isFinite(uiAmount) && (scaled !== null || decimals <= floatDecimalsMax)
  return {
    amount: String(amount),
    decimals,
    uiAmount: isFloat ? uiAmount : null,
    uiAmountString: text,
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
