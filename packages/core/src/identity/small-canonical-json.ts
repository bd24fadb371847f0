/** Bounds the time of one turn, and the depth to which the stack must reach. */
const MOST_VALUES = 256
/** Characters of all texts and names together. */
const MOST_CHARACTERS = 32_768

/** What the rest of a value may take. */
interface Room {
  values: number
  characters: number
}

/**
 * The text of a value after RFC 8785, written by the engine: for small values of plain objects and arrays, as most
 * messages are. Undefined for all others, which `CanonicalJson` writes.
 */
export function smallCanonicalJson(value: unknown): string | undefined {
  const inOrder = ordered(value, { values: MOST_VALUES, characters: MOST_CHARACTERS })
  return inOrder === undefined ? undefined : JSON.stringify(inOrder)
}

/** The value with the names of all its objects in order. Undefined if the engine's text could be another one. */
function ordered(value: unknown, room: Room): unknown {
  room.values -= 1
  if (room.values < 0) return undefined
  switch (typeof value) {
    case 'boolean':
      return value
    case 'number':
      return Number.isFinite(value) ? value : undefined
    case 'string':
      room.characters -= value.length
      return room.characters >= 0 && value.isWellFormed() ? value : undefined
    case 'object':
      if (value === null) return null
      if ('toJSON' in value) return undefined
      return Array.isArray(value) ? orderedList(value, room) : orderedObject(value, room)
    default:
      return undefined
  }
}

function orderedList(list: readonly unknown[], room: Room): unknown {
  const copy: unknown[] = []
  for (const each of list) {
    const element = ordered(each, room)
    if (element === undefined) return undefined
    copy.push(element)
  }
  return copy
}

function orderedObject(object: object, room: Room): unknown {
  const prototype: unknown = Object.getPrototypeOf(object)
  if (prototype !== Object.prototype && prototype !== null) return undefined
  const names = Object.keys(object)
  if (names.length > room.values) return undefined
  const copy: Record<string, unknown> = {}
  for (const name of names.sort()) {
    room.characters -= name.length
    // The engine puts numbers before all other names, and `__proto__` is no member of a literal.
    const isMoved = (name >= '0' && name < ':') || name === '__proto__'
    if (isMoved || room.characters < 0 || !name.isWellFormed()) return undefined
    const member = ordered((object as Readonly<Record<string, unknown>>)[name], room)
    if (member === undefined) return undefined
    copy[name] = member
  }
  return copy
}
