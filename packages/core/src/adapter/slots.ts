/** Which deliveries of one call of the guard share a slot: a batch, or an ordering key whose deliveries run in order. */
export class SharedSlots<Each> {
  readonly #open = new Map<Each, { left: number }>()
  readonly busy: number

  constructor(sharing: readonly (readonly Each[])[]) {
    this.busy = sharing.length
    for (const members of sharing) {
      const slot = { left: members.length }
      for (const each of members) this.#open.set(each, slot)
    }
  }

  /** Its settlement is known; whether its slot is free now. */
  known(each: Each): boolean {
    const slot = this.#open.get(each)
    if (slot === undefined) return false
    slot.left -= 1
    return slot.left === 0
  }
}
