/** Stands for the relay of `packages/postgres`: nothing is sent in the playground. */
function missing(): never {
  throw new Error('The playground has no relay.')
}

export class RunningRelay {
  constructor() {
    missing()
  }
}

export const shareOf = missing
export const bucketOf = missing
