/**
 * Doubles hold every decimal of 15 digits, so shorter numbers without an exponent need no look. Only what follows white
 * space, a bracket, a comma or a colon can be a number: most ids hold a digit before an e.
 */
const MAY_BE_ROUNDED = /(?:^|[\s[,:])-?[0-9](?:[0-9.]{15}|[0-9.]*[eE])/

/** Whether valid JSON text holds a number that is another one after `JSON.parse`. */
export function holdsRounded(text: string): boolean {
  // False for most texts, without reading them number by number.
  if (!MAY_BE_ROUNDED.test(text)) return false
  let isRounded = false
  const look = (_name: string, value: unknown, context?: { readonly source?: string }): null => {
    if (typeof value === 'number') isRounded ||= !isHeld(context?.source ?? '', value)
    return null
  }
  try {
    JSON.parse(text, look)
    return isRounded
  } catch {
    // The text nests deeper than the stack. Its bytes tell it from others.
    return true
  }
}

/** Whether the shortest spelling of the double is the same decimal number. */
const isHeld = (literal: string, value: number): boolean =>
  decimalOf(literal) === decimalOf(String(value))

const NUMBER = /^-?(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i

/** The significant digits and the power of ten, which are one text for all spellings of a number. */
function decimalOf(literal: string): string | undefined {
  const [matched, whole = '', fraction = '', exponent = '0'] = NUMBER.exec(literal) ?? []
  if (matched === undefined) return undefined
  const digits = (whole + fraction).replace(/^0+/, '')
  let end = digits.length
  while (digits[end - 1] === '0') end -= 1
  if (end === 0) return '0'
  return `${digits.slice(0, end)}e${Number(exponent) - fraction.length + digits.length - end}`
}
