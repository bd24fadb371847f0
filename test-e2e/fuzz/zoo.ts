import type { Fuzz } from './fuzz.ts'
import { handlers } from './handlers/index.ts'
import { kills } from './kills/index.ts'

/** A case that kills processes takes as long as some hundred others. */
const OTHERS = 40

/** The handlers of one process, and beside every fortieth seed also handlers that kill theirs. */
export const zoo: Fuzz = {
  open: async () => {
    const [alive, mortal] = [await handlers.open(), await kills.open()]
    return {
      play: async (seed) =>
        (await alive.play(seed)) ?? (seed % OTHERS === 0 ? mortal.play(seed) : undefined),
      tally: () => {
        const prefixed = Object.entries(mortal.tally()).map(([what, times]) => [
          `with kills: ${what}`,
          times,
        ])
        return { ...alive.tally(), ...Object.fromEntries(prefixed) }
      },
      close: async () => {
        await mortal.close()
        await alive.close()
      },
    }
  },
}
