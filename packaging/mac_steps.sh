# What signing the app and signing its disk image share.

# The identity and the notary's credentials are in the keychain; these variables only name them.
take_names() {
    identity=${BRAID_SIGNING_IDENTITY:-} notary=${BRAID_NOTARY_PROFILE:-}
    [ -z "$dry" ] || { identity=${identity:-IDENTITY} notary=${notary:-PROFILE}; }
    [ -n "$identity" ] || die "Name your Developer ID Application certificate in the variable BRAID_SIGNING_IDENTITY."
    [ -n "$notary" ] || die "Name the profile that xcrun notarytool store-credentials has made in BRAID_NOTARY_PROFILE."
}

sign() { step codesign --force --timestamp --options runtime --sign "$identity" "$@"; }

# Apple's notary looks at the file; what it finds wrong is told before the script ends.
notarize() {
    local answer=build/notary.json
    step xcrun notarytool submit "$1" --keychain-profile "$notary" --wait --output-format json | keep "$answer"
    [ -z "$dry" ] || return 0
    [ "$(plutil -extract status raw "$answer")" = Accepted ] && return
    step xcrun notarytool log "$(plutil -extract id raw "$answer")" --keychain-profile "$notary"
    die "Apple's notary refuses $1; it says why above."
}

keep() { [ -n "$dry" ] || cat >"$1"; }
