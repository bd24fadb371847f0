/** Calls back when all other pending work of the event loop has run. */
export function onNextTurn(callback: () => void): void {
  setImmediate(callback)
}
