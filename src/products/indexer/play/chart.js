// Draws the result of a query: lines or bars on axes with round ticks; NULL is a gap.
// A classic script: play.ts puts it before page.js into the one script of the page.

const POINTS_MAX = 4000
const LABEL_GAP = 24
const Y_TICKS = 5
// Colours that the colour-blind can tell apart.
const COLOURS = ['#2a9fd0', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#8f7ee0']
// Round distances between ticks of a time axis, in ms.
const [SECOND, MINUTE, HOUR, DAY] = [1000, 60000, 3600000, 86400000]
const TIME_STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
]
const inPage = (id) => document.getElementById(id)
const isNumeric = ({ type }) => /^(Nullable\()?(U?Int|Float|Decimal|Bool)/.test(type)
const isInteger = ({ type }) => /^(Nullable\()?U?Int/.test(type)
const isTime = ({ type }) => /^(Nullable\()?Date/.test(type)
/** More columns than these, or more bars, are a table to read. */
const COLUMNS_MAX = 8
const BARS_MAX = 60
let charted = null
let chartedShape = ''
let drawn = null

for (const id of ['kind', 'across']) inPage(id).addEventListener('change', draw)
addEventListener('resize', draw)
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw)
inPage('chart').addEventListener('pointermove', ({ offsetX }) => readOut(offsetX))
inPage('chart').addEventListener('pointerleave', () => readOut(null))

/** Numeric columns along a time, a number, a name or the order of the rows. */
// biome-ignore lint/correctness/noUnusedVariables: page.js calls it, in the same script
function offerChart(result) {
  const { meta, data } = result
  charted = null
  const numeric = meta.map((_, at) => at).filter((at) => isNumeric(meta[at]))
  if (data.length < 2 || numeric.length === 0) return
  const { kind, first } = defaultOf(result)
  const shape = JSON.stringify(meta)
  // The same columns again: what was chosen stays.
  if (shape !== chartedShape) inPage('kind').value = kind
  chartedShape = shape
  const across = inPage('across')
  across.replaceChildren(new Option('row', '-1'))
  for (const [at, { name }] of meta.entries()) across.append(new Option(name, String(at)))
  across.value = String(first)
  const lines = numeric.filter((at) => at !== first)
  inPage('legend').replaceChildren(
    ...lines.map((at, index) => {
      const label = document.createElement('label')
      const box = Object.assign(document.createElement('input'), {
        type: 'checkbox',
        value: String(at),
      })
      const colour = document.createElement('i')
      box.checked = index === 0
      box.addEventListener('change', draw)
      colour.style.background = COLOURS[index % COLOURS.length]
      label.append(box, colour, meta[at].name)
      return label
    }),
  )
  charted = result
  inPage('chart-part').hidden = false
  draw()
}

/**
 * A time, or a number that rises or falls, is drawn as a line; names as bars; anything else, and a
 * result of many columns, not until it is asked for.
 */
function defaultOf({ meta, data }) {
  const time = meta.findIndex(isTime)
  const name = meta.findIndex((column) => !isNumeric(column) && !isTime(column))
  const isWide = meta.length > COLUMNS_MAX
  if (time >= 0) return { kind: isWide ? 'none' : 'line', first: time }
  if (isNumeric(meta[0]) && meta.length > 1 && isSteady(data))
    return { kind: isWide ? 'none' : 'line', first: 0 }
  const isFew = name >= 0 && data.length <= BARS_MAX && !isWide
  return { kind: isFew ? 'bar' : 'none', first: name }
}

/** The first column rises or falls all the way. */
function isSteady(data) {
  const xs = data.map(([x]) => Number(x))
  return (
    [1, -1].some((sign) => xs.every((x, at) => at === 0 || (x - xs[at - 1]) * sign >= 0)) &&
    new Set(xs).size > xs.length / 2
  )
}

function draw() {
  const canvas = inPage('chart')
  const kind = inPage('kind').value
  canvas.hidden = kind === 'none'
  drawn = null
  readOut(null)
  if (charted === null || kind === 'none' || inPage('chart-part').hidden) return
  const ratio = devicePixelRatio || 1
  const width = canvas.clientWidth
  const height = canvas.clientHeight
  canvas.width = width * ratio
  canvas.height = height * ratio
  const pen = canvas.getContext('2d')
  pen.scale(ratio, ratio)
  const across = Number(inPage('across').value)
  const lines = [...document.querySelectorAll('#legend input')]
    .map((box, index) => ({ box, colour: COLOURS[index % COLOURS.length] }))
    .filter(({ box }) => box.checked)
    .map(({ box, colour }) => {
      const { name } = charted.meta[Number(box.value)]
      return { name, colour, points: pointsOf(across, Number(box.value)) }
    })
  plot(pen, { width, height, kind, lines, axis: axisOf(across) })
}

/** How the x axis is divided and its values are written. */
function axisOf(across) {
  const column = charted.meta[across]
  if (column === undefined) return { ticks: integerTicks, label: plain }
  if (isTime(column)) return { ticks: timeTicks, label: timeLabel }
  if (isInteger(column)) return { ticks: integerTicks, label: plain }
  if (isNumeric(column)) return { ticks: roundTicks, label: number }
  const name = (x) => String(charted.data[Math.round(x)]?.[across] ?? '').slice(0, 12)
  return { ticks: integerTicks, label: name }
}

/** In rising order of x; a y that is NULL or no number is null. */
function pointsOf(across, at) {
  const column = charted.meta[across]
  const isOrder = column === undefined || !(isNumeric(column) || isTime(column))
  const points = charted.data
    .map((row, index) => ({ x: isOrder ? index : xOf(column, row[across]), y: yOf(row[at]) }))
    .filter(({ x }) => Number.isFinite(x))
    .sort((a, b) => a.x - b.x)
  return thin(points)
}

function xOf(column, value) {
  if (value === null) return Number.NaN
  return isTime(column)
    ? Date.parse(`${String(value).replace(' ', 'T').slice(0, 23)}Z`)
    : Number(value)
}

function yOf(value) {
  return value === null || !Number.isFinite(Number(value)) ? null : Number(value)
}

/** Too many for the screen: the lowest and the highest of each stretch, so that no peak is lost. */
function thin(points) {
  const stretch = Math.ceil((2 * points.length) / POINTS_MAX)
  if (stretch <= 2) return points
  const kept = []
  for (let at = 0; at < points.length; at += stretch) {
    const part = points.slice(at, at + stretch)
    const known = part.filter(({ y }) => y !== null)
    const low = known.reduce((a, b) => (b.y < a.y ? b : a), known[0])
    const high = known.reduce((a, b) => (b.y > a.y ? b : a), known[0])
    if (known.length === 0) kept.push(part[0])
    else kept.push(...(low.x <= high.x ? [low, high] : [high, low]))
  }
  return kept
}

/** 1, 2 or 5 times a power of ten, so that about `count` of them fill the range. */
function roundStep(low, high, count) {
  const rough = (high - low) / count
  const power = 10 ** Math.floor(Math.log10(rough))
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999)
}

function roundTicks(low, high, count) {
  return ticksBy(roundStep(low, high, count), low, high)
}

function integerTicks(low, high, count) {
  return high - low <= count ? ticksBy(1, low, high) : roundTicks(low, high, count)
}

/** Beyond half days, whole days. */
function timeTicks(low, high, count) {
  const rough = (high - low) / count
  const step = TIME_STEPS.find((n) => n >= rough)
  if (step !== undefined) return ticksBy(step, low, high)
  const days = roundTicks(low / DAY, high / DAY, count).map((day) => day * DAY)
  return days.filter((at) => at % DAY === 0)
}

function ticksBy(step, low, high) {
  const ticks = []
  // Multiplied, not added up: no 0.30000000000000004.
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++)
    ticks.push(Number((n * step).toPrecision(15)))
  return ticks
}

/** A block number or slot: every digit, as in the table. */
function plain(value) {
  return String(Math.round(value))
}

function number(value) {
  const size = Math.abs(value)
  if (size > 0 && (size < 1e-6 || size >= 1e15)) return value.toExponential(2)
  return value.toLocaleString('en', { maximumSignificantDigits: 15, maximumFractionDigits: 9 })
}

function timeLabel(value) {
  const text = new Date(value).toISOString()
  return value % DAY === 0 ? text.slice(0, 10) : text.slice(11, 19)
}

function plot(pen, { width, height, kind, lines, axis }) {
  const style = getComputedStyle(document.documentElement)
  const range = rangeOf(lines, kind)
  if (range === null) return
  const { left, right, low, high, yTicks } = range
  pen.font = '12px system-ui, sans-serif'
  const widest = (labels) => Math.max(...labels.map((label) => pen.measureText(label).width))
  const box = {
    left: widest(yTicks.map(number)) + 14,
    right: width - 16,
    top: 10,
    bottom: height - 24,
  }
  const px = (x) => box.left + ((x - left) / (right - left)) * (box.right - box.left)
  const py = (y) => box.bottom - ((y - low) / (high - low)) * (box.bottom - box.top)
  // Labels of both ends tell how many fit beside each other.
  const labelWidth = widest([axis.label(left), axis.label(right)]) + LABEL_GAP
  const count = Math.max(1, Math.floor((box.right - box.left) / labelWidth))
  pen.fillStyle = style.getPropertyValue('--soft')
  pen.strokeStyle = style.getPropertyValue('--line')
  pen.textAlign = 'right'
  for (const y of yTicks) {
    pen.fillText(number(y), box.left - 8, py(y) + 4)
    rule(pen, box.left, py(y), box.right, py(y))
  }
  for (const x of axis.ticks(left, right, Math.min(count, 10))) {
    const half = pen.measureText(axis.label(x)).width / 2
    pen.textAlign = 'center'
    pen.fillText(axis.label(x), Math.min(Math.max(px(x), half), width - half), height - 6)
    rule(pen, px(x), box.bottom, px(x), box.bottom + 5)
  }
  for (const [index, { colour, points }] of lines.entries()) {
    pen.strokeStyle = colour
    pen.fillStyle = colour
    if (kind === 'line') drawLine(pen, points, px, py)
    else drawBars(pen, points, { px, py, box, index, of: lines.length })
  }
  drawn = { lines, axis, px, box }
}

/** The extent of the data; y widened to round ticks. */
function rangeOf(lines, kind) {
  let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity]
  for (const { points } of lines)
    for (const { x, y } of points) {
      left = Math.min(left, x)
      right = Math.max(right, x)
      if (y === null) continue
      low = Math.min(low, y)
      high = Math.max(high, y)
    }
  if (low === Infinity) return null
  if (kind === 'bar' || (low > 0 && low < high / 2)) low = Math.min(low, 0)
  if (kind === 'bar') high = Math.max(high, 0)
  // A constant is drawn in the middle, on an axis no finer than its own digits.
  if (high - low <= Math.abs(high) * 1e-9) [low, high] = [low - 1, high + 1]
  if (right === left) right = left + 1
  // The first and the last bar are as wide as the others.
  if (kind === 'bar') {
    const half = (right - left) / Math.max(1, lines[0].points.length - 1) / 2
    left -= half
    right += half
  }
  const step = roundStep(low, high, Y_TICKS)
  const yTicks = ticksBy(step, Math.floor(low / step) * step, Math.ceil(high / step) * step)
  return { left, right, low: yTicks[0], high: yTicks.at(-1), yTicks }
}

function rule(pen, x1, y1, x2, y2) {
  pen.beginPath()
  pen.moveTo(x1, y1)
  pen.lineTo(x2, y2)
  pen.stroke()
}

/** A value between two gaps has no line to either side: a dot. */
function drawLine(pen, points, px, py) {
  pen.lineWidth = 1.5
  pen.beginPath()
  for (const [at, { x, y }] of points.entries()) {
    if (y === null) continue
    const follows = (points[at - 1]?.y ?? null) !== null
    if (follows) pen.lineTo(px(x), py(y))
    else if ((points[at + 1]?.y ?? null) !== null) pen.moveTo(px(x), py(y))
    else pen.fillRect(px(x) - 1.5, py(y) - 1.5, 3, 3)
  }
  pen.stroke()
}

function drawBars(pen, points, { px, py, box, index, of }) {
  const space = (box.right - box.left) / Math.max(points.length, 1)
  const bar = Math.max(1, (space * 0.8) / of)
  for (const { x, y } of points) {
    if (y === null) continue
    const middle = px(x) - (bar * of) / 2
    const at = Math.min(Math.max(middle, box.left), box.right - bar * of)
    pen.fillRect(at + index * bar, Math.min(py(y), py(0)), bar, Math.abs(py(y) - py(0)))
  }
}

/** The values under the pointer, in words. */
function readOut(atX) {
  const line = inPage('readout')
  line.textContent = ''
  const points = drawn?.lines[0]?.points ?? []
  if (atX === null || points.length === 0) return
  const away = ({ x }) => Math.abs(drawn.px(x) - atX)
  const nearest = points.reduce((a, b) => (away(b) < away(a) ? b : a))
  const values = drawn.lines.map(({ name, points }) => {
    const y = points.find(({ x }) => x === nearest.x)?.y
    return `${name} ${y === null || y === undefined ? 'none' : number(Number(y.toPrecision(6)))}`
  })
  line.textContent = `${drawn.axis.label(nearest.x)}: ${values.join(', ')}`
}
