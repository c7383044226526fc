// The colours of the canvases, read from the style sheet once per theme. Thread: browser.
// A band is always a word, a shape and a colour.
import type { EfficiencyBand } from '../client/frames.ts'

const names = [
  'paper',
  'card',
  'ink',
  'soft',
  'line',
  'excellent',
  'bottlenecks',
  'sequential',
  'verified',
  'rejected',
] as const
export type Colours = Readonly<Record<(typeof names)[number], string>>

/** Six steps of cividis for the heat map, without its darkest tenth: paper may be dark too. */
export const heatSteps = ['#123570', '#3b496c', '#707173', '#a59c74', '#d8c560', '#fee838']
export const shapes: Readonly<Record<EfficiencyBand, string>> = {
  excellent: '●',
  bottlenecks: '▲',
  sequential: '■',
}

const storageKey = 'sluice-theme'
const dark = matchMedia('(prefers-color-scheme: dark)')
let kept: Colours | null = null
let fontFamily = 'sans-serif'
const listeners: (() => void)[] = []

export function font(): string {
  return `11px ${fontFamily}`
}

export function colours(): Colours {
  if (kept !== null) return kept
  const style = getComputedStyle(document.body)
  const entries = names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()])
  // Reason for the cast: fromEntries loses the names.
  kept = Object.fromEntries(entries) as Colours
  fontFamily = style.fontFamily
  return kept
}

export function onThemeChange(listener: () => void): void {
  listeners.push(listener)
}

/** Follows the system unless the reader chose a theme before. */
export function startTheme(): void {
  apply(localStorage.getItem(storageKey))
  dark.addEventListener('change', () => apply(localStorage.getItem(storageKey)))
}

export function switchTheme(): void {
  const isDark = document.documentElement.dataset.theme === 'dark'
  localStorage.setItem(storageKey, isDark ? 'light' : 'dark')
  apply(isDark ? 'light' : 'dark')
}

function apply(chosen: string | null): void {
  document.documentElement.dataset.theme = chosen ?? (dark.matches ? 'dark' : 'light')
  kept = null
  colours()
  for (const listener of listeners) listener()
}
