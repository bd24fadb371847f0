/** Calls back when all other pending work of the event loop has run. */
export function onNextTurn(callback: () => void): void {
  setImmediate(callback)
}

/** Lets all other pending work of the event loop run first. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    onNextTurn(resolve)
  })
}
