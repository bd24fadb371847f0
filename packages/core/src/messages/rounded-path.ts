/** Integers from here on may be rounded; from `LARGEST` on they are no ids of 64 bits, but measurements like 1e300. */
const LARGEST = 2 ** 64
/** Longest path that is named. */
const LONGEST_PATH = 100

/**
 * The path of the first integer of a decoded body that JavaScript may have rounded, such as `order.id` or `lines[].id`.
 *
 * @param most - Most values that are looked at.
 */
export function roundedPath(
  root: unknown,
  most: number = Number.POSITIVE_INFINITY,
): string | undefined {
  const open: { readonly value: unknown; readonly path: string }[] = [{ value: root, path: '' }]
  const seen = new Set<object>()
  for (let looked = 0; open.length > 0 && looked < most; looked += 1) {
    const { path, value } = open.pop() as (typeof open)[number]
    if (typeof value === 'number' && isRounded(value))
      return path === '' ? '.' : path.slice(0, LONGEST_PATH)
    if (typeof value !== 'object' || value === null || seen.has(value)) continue
    seen.add(value)
    if (Array.isArray(value)) {
      for (const item of value) open.push({ value: item, path: `${path}[]` })
    } else if (!ArrayBuffer.isView(value)) {
      for (const [name, item] of Object.entries(value))
        open.push({ value: item, path: path === '' ? name : `${path}.${name}` })
    }
  }
  return undefined
}

const isRounded = (value: number): boolean =>
  Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) <= LARGEST
